//! The program `click`: takes the command line of Click 2.1's user-level driver and does the work
//! of that, with its output, its messages and its exit codes.
//!
//! Where the order of packets shows, they move one at a time as they do in Click: in simulated
//! time, and when an element that shows order (as `Print` does) is in the configuration. Otherwise
//! frames are used.
//! (as `Print` does) is in the configuration. Otherwise frames are used.

mod command_line;
mod flatten;
mod handlers;
mod options;
mod self_test;
mod usage;

use std::{
    env,
    io::{self, Write},
    path::Path,
    process::ExitCode,
    time::Instant,
};

use linerate_graph::{BuildError, Class, ConfigReader, Library, Options, Plan, Router};
use linerate_linux::files;
use linerate_memory::{Arena, ArenaOptions, FRAME_DEFAULT};
use linerate_port::Devices;
use signal_hook::consts;

use crate::{
    configuration::{Parsed, not_initialized, system_message},
    resources,
    signals::end_run,
};
use command_line::{CommandLine, EarlyExit};
pub use flatten::click_flatten;
use usage::Usage;

/// Bytes of packet memory: some 30,000 packets besides those queues hold, or enough for looking at
/// a configuration. It comes as it is needed, so that scripts which call this program for every
/// line do not wait for it.
const ARENA: usize = 64 << 20;
const ARENA_UNUSED: usize = 2 << 20;

/// Arguments that Click adds to the control sockets of a configuration that replaces another, and
/// shows in it.
const RETRIES: &str = ", RETRIES 1, RETRY_WARNINGS false";

/// The release of Click whose programs these stand in for.
const COMPATIBLE: &str = "2.1";

/// The program `click`, with `elements` beside those of the library: it takes Click's command
/// line and behaves as Click does.
pub fn click(elements: &[&'static Class]) -> ExitCode {
    linerate_linux::allocator::bound_kept_memory();
    linerate_linux::descriptors::raise_limit();
    let mut arguments = env::args_os().map(|word| word.to_string_lossy().into_owned());
    let name = program_name(&arguments.next().unwrap_or_default());
    start(&name, arguments, elements).into()
}

/// Runs the program with a command line; returns its exit code.
pub(crate) fn start(
    name: &str,
    arguments: impl IntoIterator<Item = String>,
    elements: &[&'static Class],
) -> u8 {
    match CommandLine::parse(name, arguments) {
        Ok(line) => {
            eprint!("{}", line.remarks);
            match self_test::library(elements) {
                Ok(library) => run(&line, &library),
                Err(error) => {
                    eprintln!("{name}: {error}");
                    1
                }
            }
        }
        Err(EarlyExit { out, err, code }) => {
            print(&out);
            eprint!("{err}");
            code
        }
    }
}

/// The last part of the path a program was started by.
fn program_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().into()
}

/// Prints a text. A reader that has gone is no reason to fail.
fn print(text: impl AsRef<[u8]>) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_ref()).and_then(|()| out.flush());
}

fn run(line: &CommandLine, library: &Library) -> u8 {
    let _guard = line.source.guard();
    let Some(plan) = read(line, library) else { return 1 };
    let Some(mut router) = build(line, plan, library) else { return 1 };
    let mut code = 0;
    if let Some(file) = &line.output {
        code = write_flat(&mut router, file);
    }
    let (start, before) = (Instant::now(), Usage::now());
    if !line.quit {
        if router.control().plan().elements.is_empty() {
            if line.warnings {
                eprintln!(
                    "warning: {}: configuration has no elements, exiting",
                    line.source.name()
                );
            }
        } else {
            drive(&mut router);
        }
    }
    let control = router.control();
    if line.times {
        print(Usage::now().text(&before, start.elapsed()));
    }
    if !handlers::print_all(&mut router, &line.handlers) {
        code = 1;
    }
    if let Some(handler) = &line.exit_handler {
        code = handlers::exit_code(&mut router, handler);
    }
    router.close();
    // A device that is gone, or a file that could not be finished.
    if let (0, Some(reason)) = (code, control.driver().failure()) {
        eprintln!("{reason}");
        code = 1;
    }
    code
}

/// Reads and checks the configuration; writes errors to standard error as Click does.
fn read(line: &CommandLine, library: &Library) -> Option<Plan> {
    let name = line.source.name();
    let text = match line.source.read() {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{name}: {}", system_message(&error));
            return None;
        }
    };
    let parsed = parse(line, name, &text, library, "");
    eprint!("{}", parsed.found.click());
    if parsed.found.has_errors() {
        return None;
    }
    match parsed.check(library) {
        Ok((plan, _)) => Some(plan),
        Err((_, errors)) => {
            eprintln!("{}", not_initialized(&errors));
            None
        }
    }
}

/// Reads a text, with the control sockets asked for, whose configurations end
/// with `more`.
fn parse(line: &CommandLine, name: &str, text: &str, library: &Library, more: &str) -> Parsed {
    let path = line.click_path.clone().unwrap_or_else(crate::configuration::click_path);
    let mut parsed = Parsed::new(name, text, &line.globals, library, &path);
    for (number, config) in line.sockets.iter().enumerate() {
        parsed.add_control_socket(number, format!("{config}{more}"));
    }
    parsed
}

/// The reader of texts written to `hotconfig`, if that handler is to be there.
fn reader(line: &CommandLine, library: &Library) -> Option<ConfigReader> {
    let (line, library) = (line.clone(), library.clone());
    line.reconfigure.then(|| {
        ConfigReader::new(move |text| {
            parse(&line, "config", text, &library, RETRIES).into_plan_as_click(&library)
        })
    })
}

/// Makes the elements.
fn build(line: &CommandLine, plan: Plan, library: &Library) -> Option<Router> {
    let shows_order = plan.shows_order();
    let exact = line.simulated.is_some() || shows_order;
    let frame_limit = line.vector.unwrap_or(if exact { 1 } else { FRAME_DEFAULT });
    let devices: Devices = line.devices.iter().cloned().collect();
    let (least, held) =
        if line.quit { (ARENA_UNUSED, 0) } else { (ARENA, plan.packets_needed(&devices)) };
    let options = |size| ArenaOptions { size, gradual: true, ..ArenaOptions::default() };
    let arena = match resources::create_with_queues(options, least, held) {
        Ok(arena) => arena,
        Err(error) => {
            eprintln!("{error}");
            return None;
        }
    };
    let options = Options {
        // Simulated time has one clock, and so one worker.
        workers: if line.simulated.is_some() { 1 } else { line.threads },
        threads: line.threads,
        frame_limit,
        simulated: line.simulated.is_some(),
        simulated_start: (line.simulated.unwrap_or_default() * 1e9) as u64,
        cores: line.cores(),
        version: COMPATIBLE.into(),
        reader: reader(line, library),
        insecure_control: line.insecure_control,
        ..Options::default()
    };
    let ports = linerate_port::Context {
        // Click takes from the host as `SNIFFER false` demands, without asking.
        disconnect: true,
        devices,
        ..linerate_port::Context::new(Arena::clone(&arena))
    };
    match Router::new(plan, library, ports, &options) {
        Ok(router) => Some(router),
        Err(BuildError::Configuration(errors)) => {
            eprintln!("{}", not_initialized(&errors));
            None
        }
        Err(error) => {
            eprintln!("{error}\nRouter could not be initialized!");
            None
        }
    }
}

/// Runs until the configuration or a signal says to stop.
fn drive(router: &mut Router) {
    let watched = end_run(router.control(), &[consts::SIGINT, consts::SIGTERM]);
    if let Err(error) = &watched {
        eprintln!("cannot watch for signals: {error}");
    }
    router.run();
}

fn write_flat(router: &mut Router, file: &str) -> u8 {
    let text = router.read("flatconfig", "").unwrap_or_default();
    if file == "-" {
        print(&text);
        return 0;
    }
    match files::replace(Path::new(file), text.as_bytes()) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{file}: {}", system_message(&error));
            1
        }
    }
}
