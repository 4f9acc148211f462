# SPDX-License-Identifier: Apache-2.0
"""Records the build folder of this source tree in the installed package, so that it finds libfast there."""
import os

from setuptools import setup
from setuptools.command.build_py import build_py


class Build(build_py):
    def run(self):
        super().run()
        folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "release")
        if os.path.exists(os.path.join(folder, "libfast.so.0")):
            with open(os.path.join(self.build_lib, "fast", "_build.py"), "w") as file:
                file.write(f'"""Where libfast was built."""\nFOLDER = {folder!r}\n')


setup(cmdclass={"build_py": Build})
