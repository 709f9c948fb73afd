# SPDX-License-Identifier: Apache-2.0
"""What a training has written to its --metrics."""
import json
import os


def lines_of(metrics):
    """Its lines, as far as they are whole: it may still be running, or not have begun."""
    text = open(metrics).read() if os.path.exists(metrics) else ""
    return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]
