"""The C++ tests of the losses and of the decoders pass under sanitizers."""

import pytest

from ctc.native import find_compiler
from fastconformer.attention._library import LIBRARY as ATTENTION
from fastconformer.transducer._library import LIBRARY as TRANSDUCER
from tests import sanitized


@pytest.mark.timeout(600)
@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize(("library", "count"), [(TRANSDUCER, 6), (ATTENTION, 60)])
def test_the_c_tests_pass_under_sanitizers(library, count):
    sanitized.run_programs(f"fastconformer.{library.name}", library, count=count)
