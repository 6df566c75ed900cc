//! Rights that the handlers of each class declare.

use linerate_graph::{Access, Class, Right};

fn all(check: impl FnMut(&'static Class)) {
    linerate_elements::library().iter().for_each(check);
}

/// Returns true for an argument with a file, device or handler that the element opens or calls.
fn opens(kind: &str) -> bool {
    let kind = kind.to_lowercase();
    ["file", "handler", "descriptor", "instruction", "directive", "device", "socket"]
        .iter()
        .any(|word| kind.contains(word))
}

#[test]
fn a_config_that_names_files_or_handlers_needs_the_right_replace() {
    let mut seen = 0;
    all(|class| {
        if class.reconfigured == Some(Right::Write) {
            let arg = class.args.iter().find(|arg| opens(arg.kind));
            assert_eq!(arg.map(|arg| arg.name), None, "{}", class.name);
            seen += 1;
        }
    });
    assert!(seen > 40, "{seen} classes can be reconfigured");
}

#[test]
fn a_handler_for_the_configuration_is_written_where_the_class_says_so() {
    all(|class| {
        let own = class.handlers.iter().find(|handler| handler.name == "config");
        if own.is_some_and(|own| own.access != Access::Read) {
            assert_eq!(class.reconfigured, Some(Right::Write), "{}", class.name);
        }
        let config = class.handler("config").unwrap();
        assert_eq!(config.access.writes(), class.reconfigured.is_some(), "{}", class.name);
        if let Some(right) = class.reconfigured {
            assert_eq!(config.write_right, right, "{}", class.name);
        }
    });
}

/// Names of handlers that open files, call handlers, or run scripts.
#[test]
fn handlers_that_open_or_call_need_the_right_replace() {
    let opens = |name: &str| {
        name.ends_with("_file")
            || name.ends_with("_call")
            || name.ends_with("handler")
            || ["run", "step", "goto", "kill", "cat", "catq"].contains(&name)
    };
    let mut seen = 0;
    all(|class| {
        for handler in class.handlers.iter().filter(|handler| opens(handler.name)) {
            let name = format!("{}.{}", class.name, handler.name);
            if handler.access.writes() {
                assert_eq!(handler.write_right, Right::Replace, "{name}");
            } else {
                assert_eq!(handler.read_right, Right::Replace, "{name}");
            }
            seen += 1;
        }
    });
    assert!(seen > 15, "{seen} handlers");
}
