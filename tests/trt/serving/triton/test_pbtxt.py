from google.protobuf import struct_pb2, text_format

from trt.serving.triton.pbtxt import Enum, text_of


def test_messages_lists_words_and_texts_are_written_as_protobuf_reads_them():
    written = text_of(
        {"name": 'a "b"\\', "dims": [-1, 3], "on": True, "kind": Enum("CPU"), "part": [{"n": 1}, {"n": 2}]}
    )
    assert written == (
        'name: "a \\"b\\"\\\\"\ndims: [-1, 3]\non: true\nkind: CPU\npart {\n  n: 1\n}\npart {\n  n: 2\n}\n'
    )
    message = struct_pb2.Struct()
    text_format.Parse(
        text_of(
            {
                "fields": [
                    {"key": "é\n", "value": {"string_value": "\u2028 x"}},
                    {"key": "n", "value": {"number_value": -1}},
                ]
            }
        ),
        message,
    )
    assert dict(message) == {"é\n": "\u2028 x", "n": -1}
