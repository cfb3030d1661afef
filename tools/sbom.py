"""The software that an environment of Python holds: a CycloneDX 1.6 bill of materials, and a list of licences.

`python tools/sbom.py SITE_PACKAGES FOLDER` writes sbom.cdx.json and licences.txt; CI runs it on what the image is made from. It
reads the metadata that every installed distribution has, and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

PROJECT = "tensorfusion-iac"
_CLASSIFIER = "License :: "


def main(site_packages: str, folder: str) -> int:
    """Write both files. Returns 1 if a distribution does not say its licence, which a person then has to find out."""
    found = sorted(distributions(path=[site_packages]), key=lambda item: item.name.lower())
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    (out / "sbom.cdx.json").write_text(bill_of_materials(found))
    (out / "licences.txt").write_text("".join(f"{item.name} {item.version}: {licence(item)}\n" for item in found))
    silent = [item.name for item in found if not licence(item)]
    if silent:
        sys.stderr.write(f"no licence is stated by: {', '.join(silent)}\n")
    return 1 if silent else 0


def bill_of_materials(found: Iterable[Distribution]) -> str:
    """The distributions as CycloneDX JSON; ours is what the bill is of, and the others what it is made of."""
    bom = Bom()
    for item in found:
        made = component(item)
        if item.name == PROJECT:
            bom.metadata.component = made
        else:
            bom.components.add(made)
    if bom.metadata.component is not None:
        bom.register_dependency(bom.metadata.component, list(bom.components))
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1) + "\n"


def component(item: Distribution) -> Component:
    """One distribution."""
    text = licence(item)
    url = PackageURL("pypi", name=item.name.lower().replace("_", "-"), version=item.version)
    return Component(
        name=item.name,
        version=item.version,
        type=ComponentType.APPLICATION if item.name == PROJECT else ComponentType.LIBRARY,
        bom_ref=str(url),
        purl=url,
        licenses=[LicenseFactory().make_from_string(text)] if text else [],
    )


def licence(item: Distribution) -> str:
    """What a distribution says: newer metadata's SPDX expression, else its classifiers, else the first line of the old text."""
    metadata = item.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    classified = [line.rpartition(" :: ")[2] for line in metadata.get_all("Classifier") or () if line.startswith(_CLASSIFIER)]
    named = [name for name in classified if name != "OSI Approved"]
    if named:
        return " AND ".join(named)
    text = "".join(metadata.get_all("License") or ())
    return text.strip().partition("\n")[0][:100]


if __name__ == "__main__":
    if len(sys.argv) != 3:  # the program, and its two arguments
        sys.exit("usage: python tools/sbom.py SITE_PACKAGES FOLDER")
    sys.exit(main(*sys.argv[1:]))
