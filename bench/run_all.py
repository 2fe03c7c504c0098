# SPDX-License-Identifier: Apache-2.0
"""Run every case of the bench, each in a process of its own, and print one table of its figures.

Each case writes OUTDIR/NAME.json. The exit status is 1 if a case could not be measured, else 0: a
target that is not met is told in the table.
"""

import argparse
import glob
import json
import os
import subprocess
import sys

from report import machine, print_figures

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases")


def main():
    """Run, gather, print."""
    names = sorted(os.path.basename(path)[:-3] for path in glob.glob(os.path.join(CASES, "*.py")))
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headrace", help="the command, build/.../bin/headrace")
    parser.add_argument("outdir", help="where the JSON goes")
    parser.add_argument("--only", metavar="NAME", choices=names, action="append",
                        help="one of " + ", ".join(names) + "; may be repeated")
    parser.add_argument("--size", default="1G", help="bytes of the inputs (1G)")
    given = parser.parse_args()
    os.makedirs(given.outdir, exist_ok=True)

    figures, failed = [], []
    for name in given.only or names:
        print(f"== {name}", flush=True)
        path = os.path.join(given.outdir, name + ".json")
        command = [sys.executable, os.path.join(CASES, name + ".py"), given.headrace, path,
                   "--size", given.size]
        if subprocess.run(command, check=False).returncode == 0:
            with open(path, encoding="utf-8") as file:
                figures += json.load(file)["figures"]
        else:
            failed.append(name)

    about = machine()
    print(f"\n{about['cpu']}, {about['usable_cpus']} CPUs, Linux {about['kernel']}, "
          f"{about['commit']}, load {about['load_average'][0]:.2f}")
    print_figures(figures)
    for name in failed:
        print(f"{name}: FAILED, no figure")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
