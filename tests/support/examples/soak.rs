//! The program behind `cargo xtask soak`: measures listeners, and prints a JSON object for each, and lines of progress.
//!
//! `soak LINERATE SECONDS ENDINGS SEED LISTENER...`, as root.

use std::{
    env,
    path::Path,
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use linerate_test_support::hostile::{self, Plan};
use signal_hook::consts::{SIGINT, SIGTERM};

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let [linerate, seconds, endings, seed, listeners @ ..] = words.as_slice() else {
        eprintln!("usage: soak LINERATE SECONDS ENDINGS SEED LISTENER...");
        return ExitCode::from(2);
    };
    let numbers = [seconds, endings, seed].map(|word| word.parse::<u32>().expect("a number"));
    let [seconds, endings, seed] = numbers;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .expect("a signal that can be caught");
    }
    let time = Duration::from_secs(seconds.into());
    let plan = Plan { time, endings, seed: seed.into(), stop: &stop };
    for listener in listeners {
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            break;
        }
        let listener = hostile::listener(listener);
        let mut progress = |text: &str| eprintln!("{text}");
        let soaked = hostile::soak(&listener, Path::new(linerate), &plan, &mut progress);
        println!("{}", serde_json::to_string(&soaked).expect("figures"));
    }
    ExitCode::SUCCESS
}
