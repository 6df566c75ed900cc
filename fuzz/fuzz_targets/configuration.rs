//! Any accepted configuration on any packets: chains of elements of the whole library with random
//! arguments, run in simulated time on packets of any bytes and lengths, their handlers read and
//! written. Elements that reach outside the process find an empty network and two small files.
//!
//! Asserted besides the absence of panics and hangs: no buffer is lost. With `SHOW` in the
//! environment each configuration is shown, and whether it was accepted.

#![no_main]

use std::{fs, io, sync::Arc};

use libfuzzer_sys::fuzz_target;
use linerate_fuzz::{
    Bytes, bounded_library,
    generate::{ClassExamples, VALUES, configuration, files, known},
    isolate, make_packets, note, show,
};
use linerate_graph::{Console, Library, Options, Router, lang::Globals, load};
use linerate_memory::{Arena, ArenaOptions};

struct World {
    library: Library,
    /// Classes of the elements in chains.
    usable: Vec<ClassExamples>,
    arena: Arena,
}

thread_local! {
    static WORLD: World = {
        let library = linerate_elements::library();
        let options = ArenaOptions { size: 16 << 20, huge: false, ..ArenaOptions::default() };
        World {
            usable: known(&library),
            library: bounded_library(library.iter()),
            arena: options.create().expect("16 megabytes can be had"),
        }
    };
}

/// Reads every handler of the elements of the chain and writes some.
fn handlers(bytes: &mut Bytes<'_>, router: &mut Router) {
    let plan = Arc::clone(router.plan());
    for element in &plan.elements {
        for known in element.class.handlers.iter().chain(element.class.common_handlers()) {
            let call = format!("{}.{}", element.name, known.name);
            let value = *bytes.choice(VALUES);
            if known.access.writes() && bytes.one_in(2) {
                let _ = router.write(&call, value);
            }
            if known.access.reads() {
                let _ = router.read(&call, if known.parameter { value } else { "" });
            }
        }
    }
}

fuzz_target!(init: isolate(), |data: &[u8]| {
    WORLD.with(|world| {
        let mut bytes = Bytes(data);
        let frame_limit = *bytes.choice(&[1, 2, 7, 32, 256]);
        let text = configuration(&mut bytes, &world.usable);
        make_packets(&mut bytes);
        show(format!("frame limit {frame_limit}\n{text}"));
        let mut loader = |_: &str, _: &str| Err(None);
        let loaded = load("config", &text, &world.library, &Globals::default(), &mut loader);
        let Some(plan) = loaded.plan else {
            let _ = (loaded.found.click(), loaded.found.rich(&loaded.sources, false));
            return;
        };
        for (name, contents) in files(&mut bytes, &text) {
            fs::write(name, contents).expect("the directory can be written to");
        }
        let ports = linerate_port::Context::new(world.arena.clone());
        let console = Console::new(io::sink(), io::sink());
        let options = Options { simulated: true, frame_limit, console, ..Options::default() };
        if let Ok(mut router) = Router::new(plan, &world.library, ports, &options) {
            note("accepted");
            router.run();
            handlers(&mut bytes, &mut router);
            router.close();
            drop(router);
        }
        assert_eq!(world.arena.accounting().held, 0, "buffers are lost");
    });
});
