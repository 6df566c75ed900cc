//! Any programs of scripts in a small router: one of each kind of script, run in simulated time,
//! called by each other, by packets and from outside.
//!
//! An input is the scripts' instructions, a line each; an empty line ends a script. Asserted
//! besides the absence of panics and hangs: no buffer is lost.

#![no_main]

use std::{fmt::Write as _, io};

use libfuzzer_sys::fuzz_target;
use linerate_fuzz::{BOUNDED, bounded_library, inside, isolate, show};
use linerate_graph::{Console, Library, Options, Router, lang::Globals, load};
use linerate_memory::{Arena, ArenaOptions};

/// The elements that call scripts, and with handlers that they call.
const REST: &str = "
InfiniteSource(DATA \\<00010203>, LIMIT 20, BURST 3) -> c :: Counter -> packet -> q :: Queue(5)
    -> u :: Unqueue -> sw :: Switch(0) -> d :: Discard;
packet[1] -> Discard; sw[1] -> c2 :: Counter -> Discard;
proxied :: HandlerProxy; all :: HandlerAggregate(ELEMENT c, ELEMENT c2);
";

/// Names of the scripts and their types.
const SCRIPTS: &[(&str, &str)] = &[
    ("active", "Script(TYPE ACTIVE"),
    ("passive", "Script(TYPE PASSIVE"),
    ("packet", "Script(TYPE PACKET"),
    ("driver", "DriverManager(TYPE DRIVER"),
    ("proxy", "Script(TYPE PROXY"),
    ("signal", "Script(TYPE SIGNAL USR1"),
    ("poke", "PokeHandlers("),
];

struct World {
    library: Library,
    arena: Arena,
}

thread_local! {
    static WORLD: World = {
        let options = ArenaOptions { size: 16 << 20, huge: false, ..ArenaOptions::default() };
        World {
            library: bounded_library(inside()),
            arena: options.create().expect("16 megabytes can be had"),
        }
    };
}

fn configuration(programs: &str) -> String {
    let mut text = BOUNDED.to_owned();
    let mut programs = programs.split("\n\n");
    for (name, class) in SCRIPTS {
        let instructions: Vec<&str> = programs.next().unwrap_or_default().lines().collect();
        let comma = if class.ends_with('(') { "" } else { ", " };
        let _ = writeln!(text, "{name} :: {class}{comma}{});", instructions.join(",\n  "));
    }
    text + REST
}

fuzz_target!(init: isolate(), |data: &[u8]| {
    let text = configuration(&String::from_utf8_lossy(data));
    WORLD.with(|world| {
        show(text.clone());
        let mut loader = |_: &str, _: &str| Err(None);
        let loaded = load("config", &text, &world.library, &Globals::default(), &mut loader);
        let Some(plan) = loaded.plan else { return };
        let ports = linerate_port::Context::new(world.arena.clone());
        let console = Console::new(io::sink(), io::sink());
        let options = Options { simulated: true, console, ..Options::default() };
        if let Ok(mut router) = Router::new(plan, &world.library, ports, &options) {
            router.run();
            for call in ["passive.run a b", "active.step 2", "proxy.x y", "driver.goto begin"] {
                let (name, value) = call.split_once(' ').unwrap_or((call, ""));
                let _ = router.write(name, value);
                let _ = router.read(name, value);
            }
            router.close();
        }
        assert_eq!(world.arena.accounting().held, 0, "buffers are lost");
    });
});
