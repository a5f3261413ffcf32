"""Ways to a wrong colour that were found once: one file each, input and the verdict that it must get."""
