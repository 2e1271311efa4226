"""Writes convolutions of every channel by itself, with the masks before them, as nodes of one operator.

Taken are those of stride 1 in 8 bits whose input a mask of frames multiplies, as of QuartzNet. The operator gives what
QuantizeLinear, DequantizeLinear and Conv give, without rounding again what a mask has left as it was.

Shapes: B utterances, C channels, T frames.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import FunctionProto, GraphProto, NodeProto, TensorProto, helper, numpy_helper

from trt.conversion import OPSET
from trt.depthwise.library import DOMAIN, OPERATOR

# As in csrc/depthwise.h, which refuses what goes beyond them.
CHANNELS = 16  # of which the native code takes this many at a time
MOST_CHANNELS = 4096
MOST_SPAN = 512  # frames from the first tap to the last four; also taps, and frames between two of them


class _Found(NamedTuple):
    """A convolution, and the nodes around it that become one with it."""

    conv: NodeProto
    before: NodeProto
    """DequantizeLinear of what the mask multiplies."""
    after: NodeProto
    """QuantizeLinear of what the convolution gives."""
    weight: NodeProto
    """DequantizeLinear of the weights."""
    mask: str
    """The mask [B, 1, T], float32."""


def joined(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` with as many nodes of the operator as there are such convolutions; the same one where there are none."""
    graph = model.graph
    found = list(_found(graph))
    if not found:
        return model
    replaced = {id(node) for each in found for node in (each.conv, each.after)}
    masks = {each.mask: f"{each.mask}_frames" for each in found}
    nodes = [node for node in graph.node if id(node) not in replaced]
    for mask, name in masks.items():
        nodes.append(helper.make_node("Cast", [mask], [f"{name}_B1T"], f"{name}_cast", to=TensorProto.BOOL))
        nodes.append(helper.make_node("Squeeze", [f"{name}_B1T", f"{name}_axis"], [name], f"{name}_squeeze"))
        graph.initializer.append(numpy_helper.from_array(np.array([1]), f"{name}_axis"))
    for each in found:
        nodes += _nodes_of(each, masks[each.mask])
    outputs = [value.name for value in graph.output]
    known = {tensor.name for tensor in graph.initializer} | {value.name for value in graph.input}
    nodes = list(_in_order(_reached(nodes, outputs), known))
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    for each in found:  # of operators of others ONNX Runtime does not find out the shapes, without which layouts stay
        shape = ["B", None, _attributes(each.conv)["group"]]
        graph.value_info.append(helper.make_tensor_value_info(f"{each.conv.name}_BTC_given", TensorProto.UINT8, shape))
    used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    model.functions.append(_function())
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return model


def _found(graph: GraphProto) -> Iterator[_Found]:
    makers = {name: node for node in graph.node for name in node.output}
    users = defaultdict[str, list[NodeProto]](list)
    for node in graph.node:
        for name in node.input:
            users[name].append(node)
    values = {tensor.name: tensor for tensor in graph.initializer}
    given = {value.name for value in graph.output}

    def maker(name: str, kind: str) -> NodeProto | None:
        node = makers.get(name)
        return node if node is not None and node.op_type == kind else None

    for conv in graph.node:
        if conv.op_type != "Conv" or len(conv.input) != 2:
            continue
        weight, masked = maker(conv.input[1], "DequantizeLinear"), maker(conv.input[0], "DequantizeLinear")
        after = users[conv.output[0]]
        if weight is None or masked is None or conv.output[0] in given:
            continue
        if [node.op_type for node in after] != ["QuantizeLinear"]:
            continue
        rounded = maker(masked.input[0], "QuantizeLinear")
        product = maker(rounded.input[0], "Mul") if rounded is not None else None
        if product is None or not _is_taken(conv, values.get(weight.input[0])):
            continue
        before, mask = (maker(name, "DequantizeLinear") for name in product.input)
        mask = maker(mask.input[0], "QuantizeLinear") if mask is not None else None
        if before is None or mask is None or not _is_mask(mask.input[0], makers):
            continue
        if _is_zero(values, weight) and all(_is_unsigned(values, node) for node in (before, after[0])):
            yield _Found(conv, before, after[0], weight, mask.input[0])


def _is_taken(conv: NodeProto, weight: TensorProto | None) -> bool:
    """Whether the native code can compute it."""
    if weight is None or len(weight.dims) != 3 or weight.dims[1] != 1:
        return False
    (channels, _, taps), named = weight.dims, _attributes(conv)
    (dilation,), (stride,), padding = named["dilations"], named["strides"], named["pads"]
    span = dilation * 4 * ((taps - 1) // 4)
    is_same = padding == [dilation * (taps // 2)] * 2 and taps % 2 == 1
    is_small = channels <= MOST_CHANNELS and max(span, taps, dilation) <= MOST_SPAN
    return named["group"] == channels and channels % CHANNELS == 0 and stride == 1 and is_same and is_small


def _attributes(conv: NodeProto) -> dict[str, Any]:
    usual: dict[str, Any] = {"dilations": [1], "strides": [1], "pads": [0, 0], "group": 1}
    return usual | {entry.name: helper.get_attribute_value(entry) for entry in conv.attribute}


def _is_mask(name: str, makers: dict[str, NodeProto]) -> bool:
    """Whether a tensor holds 0 and 1 alone: conditions as numbers."""
    node = makers.get(name)
    while node is not None and node.op_type == "Unsqueeze":
        node = makers.get(node.input[0])
    if node is None or node.op_type != "Cast":
        return False
    condition = makers.get(node.input[0])
    return condition is not None and condition.op_type in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual")


def _is_zero(values: dict[str, TensorProto], node: NodeProto) -> bool:
    """Whether the weights are symmetric."""
    return len(node.input) < 3 or not numpy_helper.to_array(values[node.input[2]]).any()


def _is_unsigned(values: dict[str, TensorProto], node: NodeProto) -> bool:
    """Whether activations have one scale, and no sign."""
    zero = values.get(node.input[2]) if len(node.input) > 2 else None
    return zero is not None and zero.data_type == TensorProto.UINT8 and not zero.dims


def _nodes_of(each: _Found, mask: str) -> list[NodeProto]:
    name, named = each.conv.name, _attributes(each.conv)
    inputs = [f"{name}_BTC", mask, *each.before.input[1:], *each.weight.input[:2], *each.after.input[1:]]
    (dilation,), (padding, _) = named["dilations"], named["pads"]
    lists = {key: named[key] for key in ("group", "pads", "dilations")}
    output = f"{name}_BTC_given"
    return [
        helper.make_node("Transpose", [each.before.input[0]], [inputs[0]], f"{name}_to_BTC", perm=[0, 2, 1]),
        helper.make_node(OPERATOR, inputs, [output], name, domain=DOMAIN, dilation=dilation, padding=padding, **lists),
        helper.make_node("Transpose", [output], [each.after.output[0]], f"{name}_to_BCT", perm=[0, 2, 1]),
    ]


def _function() -> FunctionProto:
    """The operator by standard ones, which runtimes put in its place that have no code for it."""
    text = f"""
        <domain: "{DOMAIN}", opset_import: ["" : {OPSET}]>
        {OPERATOR} <dilation, padding, group, pads, dilations>
        (x_BTC, mask_BT, x_scale, x_zero, weight, weight_scale, y_scale, y_zero) => (y_BTC) {{
            axis = Constant <value = int64[1] {{1}}> ()
            mask_B1T = Unsqueeze (mask_BT, axis)
            x_BCT = Transpose <perm = [0, 2, 1]> (x_BTC)
            masked_BCT = Where (mask_B1T, x_BCT, x_zero)
            input_BCT = DequantizeLinear (masked_BCT, x_scale, x_zero)
            taps = DequantizeLinear <axis = 0> (weight, weight_scale)
            sums_BCT = Conv <group: int = @group, pads: ints = @pads, dilations: ints = @dilations> (input_BCT, taps)
            y_BCT = QuantizeLinear (sums_BCT, y_scale, y_zero)
            y_BTC = Transpose <perm = [0, 2, 1]> (y_BCT)
        }}
    """
    return onnx.parser.parse_function(text)


def _reached(nodes: Sequence[NodeProto], outputs: Sequence[str]) -> list[NodeProto]:
    """Those on which the outputs depend."""
    makers = {name: node for node in nodes for name in node.output}
    reached, waiting = dict[int, NodeProto](), list(outputs)
    while waiting:
        node = makers.get(waiting.pop())
        if node is not None and id(node) not in reached:
            reached[id(node)] = node
            waiting += node.input
    return [node for node in nodes if id(node) in reached]


def _in_order(nodes: Sequence[NodeProto], known: set[str]) -> Iterator[NodeProto]:
    """Each after those whose outputs it takes; `known`: what no node makes."""
    makers = {name: node for node in nodes for name in node.output}
    done = set[int]()
    for node in nodes:
        waiting = [node]
        while waiting:
            needed = [makers[name] for name in waiting[-1].input if name not in known and name in makers]
            missing = [other for other in needed if id(other) not in done]
            if missing:
                waiting += missing
            elif id(ready := waiting.pop()) not in done:
                done.add(id(ready))
                yield ready
