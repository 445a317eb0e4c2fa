"""What the wheel gets besides Python: the compiled modules, where they can be compiled."""

from __future__ import annotations

import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledModules(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles before a wheel is built. An editable install uses what make has compiled in the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the compiled modules, or say why there are none."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        import compile_core

        try:
            files = compile_core.compile_all()
        except compile_core.CannotCompile as reason:
            self.app.display_warning(f"a wheel of pure Python: {reason}")
            return
        if files:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["force_include"].update({str(file): f"mainstem/_compiled/{file.name}" for file in files})
