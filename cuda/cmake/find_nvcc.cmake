# Sets CMAKE_CUDA_COMPILER where an nvcc is to be found and none was chosen: on PATH, in CUDA_HOME or CUDA_PATH, under
# /usr/local/cuda, or in pip's nvidia packages of the Python that builds (`pip install luxel[nvcc]`). Finding none is
# no error: the CPU library is built alone.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(LUXEL_NVCC nvcc
    HINTS ENV CUDA_HOME ENV CUDA_PATH
    PATHS /usr/local/cuda /opt/cuda
    PATH_SUFFIXES bin)
  if(NOT LUXEL_NVCC)
    # The interpreter's own prefix comes first: build isolation takes its packages off sys.path.
    set(luxel_python ${Python_EXECUTABLE} ${Python3_EXECUTABLE} ${PYTHON_EXECUTABLE} python3)
    list(GET luxel_python 0 luxel_python)
    execute_process(
      COMMAND ${luxel_python} -c "import sys, sysconfig
print(';'.join(dict.fromkeys([sysconfig.get_path('purelib'), *filter(None, sys.path)])))"
      OUTPUT_VARIABLE luxel_sites OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    foreach(site IN LISTS luxel_sites)
      file(GLOB luxel_pip_nvcc ${site}/nvidia/cu[0-9]*/bin/nvcc)
      if(luxel_pip_nvcc AND NOT LUXEL_NVCC)
        list(GET luxel_pip_nvcc -1 luxel_pip_nvcc)
        set(LUXEL_NVCC ${luxel_pip_nvcc} CACHE FILEPATH "The CUDA compiler" FORCE)
      endif()
    endforeach()
  endif()
  if(LUXEL_NVCC)
    message(STATUS "luxel: CUDA compiler ${LUXEL_NVCC}")
    set(CMAKE_CUDA_COMPILER ${LUXEL_NVCC})
  endif()
endif()
if(LUXEL_NVCC)
  # pip's packages keep libcudart_static.a in lib, where nvcc itself looks in lib64 only.
  cmake_path(GET LUXEL_NVCC PARENT_PATH luxel_nvcc_lib)
  cmake_path(SET luxel_nvcc_lib NORMALIZE ${luxel_nvcc_lib}/../lib)
  if(EXISTS ${luxel_nvcc_lib}/libcudart_static.a)
    set(ENV{LIBRARY_PATH} "${luxel_nvcc_lib}:$ENV{LIBRARY_PATH}") # for CMake's trial of the compiler
    add_link_options(-L${luxel_nvcc_lib}) # link_directories would drop it again as an implied folder
  endif()
endif()
