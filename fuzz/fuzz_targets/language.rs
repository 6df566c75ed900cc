//! Any text as a configuration: reading it never panics, and both forms of its diagnostics can be
//! written. The flat graph of a text that is right, written out, means the same again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate_graph::{
    Library,
    lang::{self, Globals, SourceMap, load},
};

thread_local! {
    static LIBRARY: Library = linerate_elements::library();
}

fuzz_target!(|text: &str| {
    LIBRARY.with(|library| {
        let read = |text: &str| {
            let mut sources = SourceMap::new();
            let file = sources.add("config", text);
            // A library that needs itself, and one that does not exist.
            let mut loader = |name: &str, _: &str| match name {
                "this" => Ok(lang::Library { path: "this".to_owned(), text: text.to_owned() }),
                _ => Err(None),
            };
            let (flat, found) = load(&mut sources, file, library, &Globals::default(), &mut loader);
            (sources, flat, found)
        };
        let (sources, flat, found) = read(text);
        assert_eq!(found.click().is_empty(), found.is_empty());
        let _ = found.rich(&sources, false);
        let _ = found.rich(&sources, true);
        if found.has_errors() {
            return;
        }
        let written = flat.unparse();
        let (_, again, found) = read(&written);
        assert!(!found.has_errors(), "{written}\n{}", found.click());
        assert_eq!(again.elements.len(), flat.elements.len(), "{written}");
        assert_eq!(again.connections.len(), flat.connections.len(), "{written}");
    });
});
