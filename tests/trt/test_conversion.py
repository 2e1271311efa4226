from collections.abc import Callable, Sequence

import onnx
import pytest
import torch
from torch import Tensor, nn

from common.export import ExportGraph
from trt.conversion import ExportError, converted, greatest_difference


def graph_of(
    module: nn.Module,
    inputs: dict[str, Tensor],
    *,
    checks: Sequence[dict[str, Tensor]] = (),
    reference: Callable[..., tuple[Tensor]] | None = None,
) -> ExportGraph:
    return ExportGraph(
        module=module,
        reference=reference or module,
        inputs=inputs,
        axes={name: {0: "B"} for name in inputs},
        outputs=("y_BF",),
        checks=checks,
        tolerance=1e-5,
        metadata={"labels": '[" ", "a"]'},
    )


class Scaled(nn.Module):
    def forward(self, x_BF: Tensor, pace_B1: Tensor) -> tuple[Tensor]:
        return (x_BF * 2 * pace_B1,)


class Guarded(nn.Module):
    """The logarithm of a product with a matrix, kept finite by 1e-20, which torch's exporter takes for nothing."""

    def forward(self, x_BF: Tensor) -> tuple[Tensor]:
        return ((x_BF @ torch.ones(3, 3) + 1e-20).log(),)


@pytest.fixture(scope="module")
def scaled():
    example = {"x_BF": torch.rand(3, 4), "pace_B1": torch.rand(3, 1)}
    return converted(graph_of(Scaled(), example))


def test_a_file_has_its_names_its_metadata_and_no_lines_of_python(scaled):
    model = onnx.load_model_from_string(scaled.content)
    assert [value.name for value in (*model.graph.input, *model.graph.output)] == ["x_BF", "pace_B1", "y_BF"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "B"
    assert {entry.key: entry.value for entry in model.metadata_props} == {"labels": '[" ", "a"]'}
    assert model.producer_name == "speech-models"
    assert b".py" not in scaled.content


def test_one_tensor_as_example_of_two_inputs_is_refused():
    example = torch.rand(3, 4)
    with pytest.raises(ExportError, match="two inputs share one tensor as their example"):
        converted(graph_of(Scaled(), {"x_BF": example, "pace_B1": example}))


def test_an_input_that_nothing_depends_on_is_refused():
    class Deaf(nn.Module):
        def forward(self, x_BF: Tensor, pace_B1: Tensor) -> tuple[Tensor]:
            return (x_BF * 2,)

    example = {"x_BF": torch.rand(3, 4), "pace_B1": torch.rand(3, 1)}
    with pytest.raises(ExportError, match="does not depend on its input pace_B1"):
        converted(graph_of(Deaf(), example))


def test_a_graph_that_gives_infinity_where_the_model_does_not_is_refused_and_the_place_named():
    silence = {"x_BF": torch.zeros(2, 3)}
    graph = graph_of(Guarded(), {"x_BF": torch.rand(3, 3)}, checks=[silence])
    with pytest.raises(
        ExportError, match=r"y_BF differs by inf .* for x_BF \[2, 3\].*; the first value that differs is"
    ):
        greatest_difference(converted(graph), graph)


def test_a_graph_that_computes_something_else_than_the_model_is_refused(scaled):
    example = {"x_BF": torch.rand(3, 4), "pace_B1": torch.rand(3, 1)}
    graph = graph_of(Scaled(), example, reference=lambda x_BF, pace_B1: (x_BF * 2,))
    with pytest.raises(ExportError, match="the plain module that was traced differs already"):
        greatest_difference(scaled, graph)


def test_a_graph_agrees_with_its_model_for_other_sizes(scaled):
    example, other = ({"x_BF": torch.rand(n, 4), "pace_B1": torch.rand(n, 1)} for n in (3, 1))
    assert greatest_difference(scaled, graph_of(Scaled(), example, checks=[other])) < 1e-6
