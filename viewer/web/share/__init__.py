"""The Share menu of a page: images, web pages, scene files, meshes, films, links and reports of what it shows."""
