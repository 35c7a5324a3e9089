"""Convolutions on CPUs as kernels of vectors: convolutions_to_kernels is the pass; the other files are its parts.

Each dispatch is a `Code` (`emit/workgroups.py`), which has three fields: a form, which holds the tile of sums in
registers and all other properties on which the code depends; the numbers that the code reads at run time; and a part,
which emits the code:

    file                dispatch            form              part
    channels_first      convolution         Form              ImagePart (image_parts)
    planes              planes              _PlanesForm       _PlanesPart
    toward_kernels      toward_kernel       _GradientForm     _GradientPart
                        panels              _PanelsForm       _PanelsPart
    toward_depthwise    toward_depthwise    _DepthwiseForm    _DepthwisePart
"""
