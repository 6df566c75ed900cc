//! Display of the running input, shown with a panic; with `SHOW` in the environment, always.

use std::{cell::RefCell, env, panic, sync::OnceLock};

thread_local! {
    static RUNNING: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Whether everything is shown.
static ALWAYS: OnceLock<bool> = OnceLock::new();

/// Sets the text of the input that runs from now on.
pub fn show(text: String) {
    note(&text);
    RUNNING.set(text);
}

/// Prints a note about the running input, when everything is shown.
pub fn note(text: &str) {
    let always = *ALWAYS.get_or_init(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            RUNNING.with_borrow(|text| eprintln!("{text}"));
            before(info);
        }));
        env::var_os("SHOW").is_some()
    });
    if always {
        eprintln!("{text}\n");
    }
}
