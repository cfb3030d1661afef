"""The components as programs in other languages see them; all that they do is in `tensorfusion_iac.components`.

Pulumi's schema analyser reads annotations as they are, so no module here may import them from `__future__`.
"""
