//! Checks of the documentation that classes carry.

use linerate_graph::{Class, Library};

use crate::Run;

/// Checks that all of these classes are documented, and that their examples are configurations of
/// them and of a library that can be run where files and devices are there.
///
/// # Panics
///
/// When one is not.
pub fn assert_documented(classes: &[&'static Class], library: &Library) {
    let library: Vec<_> = library.iter().collect();
    for class in classes {
        let name = class.name;
        for (what, text) in [
            ("summary", class.summary),
            ("description", class.description),
            ("cost", class.cost),
            ("example", class.example),
            ("family", class.family),
        ] {
            assert!(!text.trim().is_empty(), "{name} has no {what}");
        }
        assert!(!class.summary.ends_with('.'), "{name}: a summary is no sentence");
        for arg in class.args {
            assert!(!arg.help.is_empty(), "{name}: {} has no help", arg.name);
        }
        for handler in class.handlers {
            assert!(!handler.help.is_empty(), "{name}.{} has no help", handler.name);
        }
        let errors = Run::new(class.example).with(&library).with(classes).real_time().refused();
        // Files and devices need not be there.
        let opening = errors.contains("While initializing");
        assert!(errors.is_empty() || opening, "{name}: {errors}");
    }
}
