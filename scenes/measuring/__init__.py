"""What a user has measured in a scene: its up direction, the length of its unit, and rulers.

`measurements` has the values, `operations` what changes them, `measurements_file` the file that holds them.
"""
