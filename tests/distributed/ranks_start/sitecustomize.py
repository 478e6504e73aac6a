"""No pandas: scikit-learn loads it wherever it is there, a sixth of what a rank's start costs."""

import sys


class WithoutPandas:
    """Says that there is none."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, WithoutPandas)
