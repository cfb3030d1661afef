"""The programs that this project runs and does not contain: found on the machine, else built from pinned Go modules.

See docs/tools.md; recipes and versions are in tools/.
"""

from tensorfusion_iac.local.toolchain.bin_dir import install_provider, link
from tensorfusion_iac.local.toolchain.errors import ToolError
from tensorfusion_iac.local.toolchain.lookup import Found, Places
from tensorfusion_iac.local.toolchain.progress import Progress, to_stderr
from tensorfusion_iac.local.toolchain.provide import ensure, locate

__all__ = ["Found", "Places", "Progress", "ToolError", "ensure", "install_provider", "link", "locate", "to_stderr"]
