// Binds functions of glibc to the versions that glibc 2.28 has, so that a library that was linked on a newer system loads
// on an old one. glibc 2.29 gave exp, exp2, log, log2 and pow a version that no longer reports errors through matherr;
// glibc 2.34 moved threads, semaphores, dl* and shm_* into libc.so.6. Both keep the old versions for programs that ask
// for them, as any program built before does, and the results are the same.
//
// A definition here is hidden: it takes the references of its own library, also those of libcudart_static.a, and jumps.
// Defined by CMakeLists.txt: LUXEL_BIND_MATH, LUXEL_BIND_THREADS. tests/packaging/check_wheel.py checks the outcome.

.macro bind_to version, names:vararg
.irp name, \names
  .symver luxel_\name, \name@\version
  .globl \name
  .hidden \name
  .type \name, @function
  .p2align 4
\name:
  .cfi_startproc
  endbr64
  jmp *luxel_\name@GOTPCREL(%rip)
  .cfi_endproc
  .size \name, . - \name
.endr
.endm

.text
#ifdef LUXEL_BIND_MATH
bind_to GLIBC_2.2.5, exp, log, pow
bind_to GLIBC_2.2.5, exp2, log2
#endif
#ifdef LUXEL_BIND_THREADS
bind_to GLIBC_2.2.5, dlopen, dlclose, dlsym, dlvsym, dlerror, shm_open, shm_unlink
bind_to GLIBC_2.3.4, dlmopen
bind_to GLIBC_2.2.5, pthread_create, pthread_join, pthread_detach, pthread_kill, pthread_once
bind_to GLIBC_2.2.5, pthread_key_create, pthread_key_delete, pthread_getspecific, pthread_setspecific
bind_to GLIBC_2.2.5, pthread_mutex_trylock, pthread_mutexattr_init, pthread_mutexattr_destroy, pthread_mutexattr_settype
bind_to GLIBC_2.2.5, pthread_mutexattr_setpshared, pthread_condattr_setpshared
bind_to GLIBC_2.2.5, pthread_rwlock_init, pthread_rwlock_destroy, pthread_rwlock_unlock
bind_to GLIBC_2.2.5, pthread_rwlock_rdlock, pthread_rwlock_tryrdlock, pthread_rwlock_timedrdlock
bind_to GLIBC_2.2.5, pthread_rwlock_wrlock, pthread_rwlock_trywrlock, pthread_rwlock_timedwrlock
bind_to GLIBC_2.2.5, pthread_rwlockattr_init, pthread_rwlockattr_destroy, pthread_rwlockattr_setpshared
bind_to GLIBC_2.2.5, pthread_spin_init, pthread_spin_destroy, pthread_spin_lock, pthread_spin_trylock, pthread_spin_unlock
bind_to GLIBC_2.2.5, sem_init, sem_destroy, sem_wait, sem_trywait, sem_timedwait, sem_post
#endif

.section .note.GNU-stack, "", @progbits
