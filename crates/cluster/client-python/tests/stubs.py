"""What the type stubs say is there is there, and what is there they say."""

import ast
import inspect
import sys
from importlib import resources

import linerate

IGNORED = {"__new__", "__enter__", "__exit__", "__iter__", "__next__", "__len__", "__getitem__"}


def said(body):
    """Names that a body of a stub defines, with the parameters of what is called."""
    names = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            is_property = any(getattr(mark, "id", "") == "property" for mark in node.decorator_list)
            arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            names[node.name] = None if is_property else [argument.arg for argument in arguments][1:]
    return names


def there(kind):
    names = {}
    for name, value in vars(kind).items():
        if not name.startswith("_"):
            parameters = inspect.signature(value).parameters if callable(value) else None
            names[name] = parameters and list(parameters)[1:]
    return names


stub = ast.parse(resources.files(linerate).joinpath("__init__.pyi").read_text())
assert resources.files(linerate).joinpath("py.typed").is_file()
classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
functions = {node.name for node in stub.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
constants = {node.target.id: node.value.value for node in stub.body if isinstance(node, ast.AnnAssign)}
assert all(getattr(linerate, name) == value for name, value in constants.items())
names = set(classes) | functions | set(constants)
assert names == set(linerate.__all__), names
for name, node in classes.items():
    kind = getattr(linerate, name)
    assert [base.id for base in node.bases] in ([], [kind.__base__.__name__]), name
    if not issubclass(kind, Exception):
        public = {key: value for key, value in said(node.body).items() if key not in IGNORED}
        assert public == there(kind), (name, public, there(kind))
        for special in IGNORED & set(said(node.body)):
            # A sequence is iterated over by its items.
            instead = special == "__iter__" and hasattr(kind, "__getitem__")
            assert hasattr(kind, special) or instead, (name, special)
        assert ast.get_docstring(node), name
print("done", sys.version_info >= (3, 11))
