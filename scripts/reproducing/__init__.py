"""The figures that the articles on TFLMS published, and how the tools of this project are asked for the same.

`published` is what a figure is, `asking` runs the tools and keeps their answers; the other rooms have one of the
articles' models each.
"""
