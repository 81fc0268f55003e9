"""How each kind of package is built from the program, and how it is tested in a clean place.

A recipe is a module with two functions:

  build(job) -> list[Path]      writes the package into `job.out` and returns its files; raises Skip if it cannot
  test(job, files)              installs the files into an empty directory, and uses what was installed
"""
