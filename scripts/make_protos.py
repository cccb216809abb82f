#!/usr/bin/env python3
"""Write proto/ from the descriptors that an installed TensorFlow carries.

    python3 -m venv venv && venv/bin/pip install tensorflow-cpu==2.21.0
    venv/bin/python scripts/make_protos.py proto

Message names, field names and field numbers are TensorFlow's wire format. Nothing else is taken:
the descriptors hold no comments. Run it again for a newer TensorFlow and read the difference.
"""

import os
import shutil
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from google.protobuf import descriptor_pb2
from tensorflow.core.framework import (
    cost_graph_pb2,
    graph_pb2,
    kernel_def_pb2,
    op_def_pb2,
    step_stats_pb2,
)
from tensorflow.core.protobuf import (
    config_pb2,
    meta_graph_pb2,
    rewriter_config_pb2,
    saved_model_pb2,
    tensorflow_server_pb2,
)

# All that these files reach is written.
ROOTS = [
    config_pb2,
    cost_graph_pb2,
    graph_pb2,
    kernel_def_pb2,
    meta_graph_pb2,
    op_def_pb2,
    rewriter_config_pb2,
    saved_model_pb2,
    step_stats_pb2,
    tensorflow_server_pb2,
]

# What each file holds, in our words. A file that is missing here is an error, so that a newer
# TensorFlow's additions get a sentence of their own.
PURPOSE = {
    "tensorflow/core/framework/allocation_description.proto": "One allocation behind a tensor, as a trace reports it.",
    "tensorflow/core/framework/attr_value.proto": "The value of a node's attribute.",
    "tensorflow/core/framework/cost_graph.proto": "Measured or estimated costs of the nodes of a graph.",
    "tensorflow/core/framework/full_type.proto": "Structured types of values, finer than a data type.",
    "tensorflow/core/framework/function.proto": "The function library: bodies that nodes call by name.",
    "tensorflow/core/framework/graph.proto": "A graph: nodes, versions, functions.",
    "tensorflow/core/framework/graph_debug_info.proto": "Where in a program the nodes were made.",
    "tensorflow/core/framework/kernel_def.proto": "Which kernels implement an op, on which device and for which types.",
    "tensorflow/core/framework/node_def.proto": "One node of a graph.",
    "tensorflow/core/framework/op_def.proto": "The signature of an op: arguments and attributes.",
    "tensorflow/core/framework/resource_handle.proto": "The value of a resource tensor.",
    "tensorflow/core/framework/step_stats.proto": "What one step ran, when, and with which memory.",
    "tensorflow/core/framework/tensor.proto": "A constant tensor.",
    "tensorflow/core/framework/tensor_description.proto": "A tensor without its values, as a trace reports it.",
    "tensorflow/core/framework/tensor_shape.proto": "A shape, known in part or in full.",
    "tensorflow/core/framework/types.proto": "The numbers of the data types.",
    "tensorflow/core/framework/variable.proto": "A variable in a collection of a meta graph.",
    "tensorflow/core/framework/versions.proto": "Which versions wrote a graph and may read it.",
    "tensorflow/core/protobuf/cluster.proto": "The jobs and tasks of a cluster.",
    "tensorflow/core/protobuf/config.proto": "Options of a session and of a step, and what a step returns about itself.",
    "tensorflow/core/protobuf/debug.proto": "Tensors to watch while a step runs.",
    "tensorflow/core/protobuf/device_filters.proto": "Which remote devices a task may see.",
    "tensorflow/core/protobuf/meta_graph.proto": "A graph with its collections, signatures and saver.",
    "tensorflow/core/protobuf/rewriter_config.proto": "Options of the graph optimizers.",
    "tensorflow/core/protobuf/saved_model.proto": "The file saved_model.pb.",
    "tensorflow/core/protobuf/saved_object_graph.proto": "The objects of a program that a saved model restores.",
    "tensorflow/core/protobuf/saver.proto": "How a graph saves and restores its variables.",
    "tensorflow/core/protobuf/struct.proto": "Nested Python values: lists, dictionaries, type specifications.",
    "tensorflow/core/protobuf/tensorflow_server.proto": "One server of a cluster.",
    "tensorflow/core/protobuf/trackable_object_graph.proto": "The objects behind a checkpoint.",
    "tensorflow/core/protobuf/verifier_config.proto": "Options of the checks between graph optimizers.",
    "xla/tsl/protobuf/coordination_config.proto": "Options of the service that coordinates tasks.",
    "xla/tsl/protobuf/rpc_options.proto": "Options of remote calls.",
}

HEADER = """\
// {purpose}
// Names and numbers are TensorFlow's wire format. Written by scripts/make_protos.py.
"""

Field = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in Field.Type.items()
    if name not in ("TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP")
}


class Renderer:
    """Renders one file; remembers which other types it named, for the imports."""

    def __init__(self, file):
        self.file = file
        self.lines = []
        self.used_types = set()

    def line(self, depth, text):
        self.lines.append("  " * depth + text if text else "")

    def body(self):
        for enum in self.file.enum_type:
            self.line(0, "")
            self.enum(enum, 0)
        for message in self.file.message_type:
            self.line(0, "")
            self.message(message, 0)
        return self.lines

    def type_name(self, full_name):
        """The name as this file writes it: without the package where it is the file's own."""
        self.used_types.add(full_name)
        return full_name.removeprefix(f".{self.file.package}.").removeprefix(".")

    def enum(self, enum, depth):
        self.line(depth, f"enum {enum.name} {{")
        if enum.options.allow_alias:
            self.line(depth + 1, "option allow_alias = true;")
        self.reserved(enum, depth + 1, inclusive=True)
        for value in enum.value:
            self.line(depth + 1, f"{value.name} = {value.number};")
        self.line(depth, "}")

    def message(self, message, depth):
        assert not (message.extension or message.extension_range), message.name
        self.line(depth, f"message {message.name} {{")
        self.reserved(message, depth + 1, inclusive=False)
        for enum in message.enum_type:
            self.enum(enum, depth + 1)
        for nested in message.nested_type:
            if not nested.options.map_entry:
                self.message(nested, depth + 1)
        self.fields(message, depth + 1)
        self.line(depth, "}")

    def reserved(self, item, depth, inclusive):
        ranges = []
        for span in item.reserved_range:
            last = span.end if inclusive else span.end - 1
            ranges.append(str(span.start) if span.start == last else f"{span.start} to {last}")
        if ranges:
            self.line(depth, f"reserved {', '.join(ranges)};")
        if item.reserved_name:
            names = ", ".join(f'"{name}"' for name in item.reserved_name)
            self.line(depth, f"reserved {names};")

    def fields(self, message, depth):
        """The fields in their declared order, those of a oneof together."""
        maps = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
        written = set()
        for field in message.field:
            if not field.HasField("oneof_index") or field.proto3_optional:
                self.field(field, maps, depth)
            elif field.oneof_index not in written:
                written.add(field.oneof_index)
                self.line(depth, f"oneof {message.oneof_decl[field.oneof_index].name} {{")
                for member in message.field:
                    same = member.HasField("oneof_index") and member.oneof_index == field.oneof_index
                    if same:
                        self.field(member, maps, depth + 1, in_oneof=True)
                self.line(depth, "}")

    def field(self, field, maps, depth, in_oneof=False):
        entry = maps.get(field.type_name.rsplit(".", 1)[-1]) if field.label == Field.LABEL_REPEATED else None
        if entry:
            key, value = (self.field_type(part) for part in entry.field)
            declaration = f"map<{key}, {value}>"
        else:
            declaration = self.label(field, in_oneof) + self.field_type(field)
        self.line(depth, f"{declaration} {field.name} = {field.number}{self.options(field)};")

    def label(self, field, in_oneof):
        if in_oneof:
            return ""
        if field.label == Field.LABEL_REPEATED:
            return "repeated "
        if field.label == Field.LABEL_REQUIRED:
            return "required "
        explicit = field.proto3_optional or self.file.syntax != "proto3"
        return "optional " if explicit else ""

    def field_type(self, field):
        assert field.type != Field.TYPE_GROUP, field.name
        return SCALARS.get(field.type) or self.type_name(field.type_name)

    @staticmethod
    def options(field):
        """Only what the bytes depend on. `deprecated` is left out: a graph that passes through
        keeps its old fields too, and the compiler would warn wherever one is named."""
        assert not field.HasField("default_value"), field.name
        if field.options.HasField("packed"):
            return f" [packed = {str(field.options.packed).lower()}]"
        return ""


def reached_files():
    """The descriptors of all files that the roots reach, by name."""
    files = {}
    waiting = [module.DESCRIPTOR for module in ROOTS]
    while waiting:
        descriptor = waiting.pop()
        if descriptor.name not in files:
            file = descriptor_pb2.FileDescriptorProto()
            descriptor.CopyToProto(file)
            files[descriptor.name] = file
            waiting.extend(descriptor.dependencies)
    return files


def declared_types(file):
    """The full names of all messages and enums of a file."""

    def walk(scope, messages, enums):
        yield from (f"{scope}.{enum.name}" for enum in enums)
        for message in messages:
            yield f"{scope}.{message.name}"
            yield from walk(f"{scope}.{message.name}", message.nested_type, message.enum_type)

    return walk(f".{file.package}", file.message_type, file.enum_type)


def render(file, home_of):
    renderer = Renderer(file)
    body = renderer.body()
    imports = sorted({home_of[name] for name in renderer.used_types} - {file.name})
    head = [f'syntax = "{file.syntax or "proto2"}";', "", f"package {file.package};"]
    if imports:
        head.append("")
    head.extend(f'import "{name}";' for name in imports)
    return HEADER.format(purpose=PURPOSE[file.name]) + "\n".join(head + body) + "\n"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = Path(sys.argv[1])
    files = reached_files()
    home_of = {name: file.name for file in files.values() for name in declared_types(file)}

    texts = {
        name: render(file, home_of)
        for name, file in sorted(files.items())
        # The compiler brings google/protobuf; a file without types only forwards to another.
        if not name.startswith("google/") and (file.message_type or file.enum_type)
    }
    shutil.rmtree(root, ignore_errors=True)
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(f"{len(texts)} files in {root}")


if __name__ == "__main__":
    main()
