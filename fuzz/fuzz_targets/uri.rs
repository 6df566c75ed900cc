//! Port names: a name that parses prints to one that parses to the same, and taking options out
//! never fails in any other way than with an error.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate_memory::ArenaOptions;
use linerate_port::{Context, DRIVERS, Direction, PortUri, Value, open};

thread_local! {
    static CONTEXT: Context = {
        let options = ArenaOptions { size: 1 << 20, huge: false, ..ArenaOptions::default() };
        Context::new(options.create().expect("a megabyte can be had"))
    };
}

fuzz_target!(|text: &str| {
    let Ok(uri) = text.parse::<PortUri>() else { return };
    let printed = uri.to_string();
    assert_eq!(printed.parse::<PortUri>().as_ref(), Ok(&uri), "{printed}");

    for driver in DRIVERS {
        let mut options = uri.options(driver.options);
        for option in driver.all_options() {
            let _ = match option.value {
                Value::Switch => options.switch(option.name).map(drop),
                Value::Number { .. } => options.number(option.name).map(drop),
                Value::Word(_) => options.word(option.name).map(drop),
                Value::Text { .. } => options.value::<f64>(option.name).map(drop),
            };
        }
        let _ = options.finish();
    }

    // The driver that touches nothing outside; the others' options are taken by the same code.
    if uri.driver() == "null" {
        CONTEXT.with(|context| {
            let port = open(&uri, &context.toward(Direction::Both));
            drop(port);
            assert_eq!(context.arena.accounting().held, 0, "{printed}");
        });
    }
});
