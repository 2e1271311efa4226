"""The C++ tests of the losses and of the decoder pass under sanitizers."""

import pytest

from ctc.native import find_compiler
from fastconformer.transducer._library import LIBRARY
from tests import sanitized


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
def test_the_c_tests_pass_under_sanitizers():
    sanitized.run_programs("fastconformer.transducer", LIBRARY, count=6)
