//! Clients of the control sockets of a run.

use std::{
    io::{Read, Write},
    net::Shutdown,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::{RunWith, TestLibrary};

/// Longest time until a server listens.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a configuration in real time, and returns the answers of its control socket, a Unix socket of
/// that name: to each of `sent` on a connection of its own. The run ends with the answers.
///
/// # Panics
///
/// When the run does, or nothing listens for a minute.
pub fn talk<L: TestLibrary>(run: RunWith<L>, socket: &Path, sent: &[&[u8]]) -> Vec<String> {
    let path = socket.to_owned();
    let sent: Vec<Vec<u8>> = sent.iter().map(|sent| sent.to_vec()).collect();
    let client = thread::spawn(move || {
        let connected = || connect(|| UnixStream::connect(&path));
        let answers = sent.iter().map(|sent| conversation(connected(), sent)).collect();
        let _ = connected().write_all(b"WRITE stop 100\n");
        answers
    });
    run.real_time().run();
    client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns a connection, as soon as there can be one.
///
/// # Panics
///
/// When nothing listens for a minute.
pub fn connect<S>(connect: impl Fn() -> std::io::Result<S>) -> S {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match connect() {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < deadline, "nothing listens: {error}"),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns all that is answered to `sent`, after which the client has no more to say.
///
/// # Panics
///
/// When the answer is no text.
pub fn conversation(stream: impl Into<OwnedFd>, sent: &[u8]) -> String {
    let mut stream = UnixStream::from(stream.into());
    let mut writer = stream.try_clone().expect("a descriptor");
    let mut answer = Vec::new();
    thread::scope(|scope| {
        scope.spawn(move || {
            // The other side may close before it has read everything.
            let _ = writer.write_all(sent);
            let _ = writer.shutdown(Shutdown::Write);
        });
        let _ = stream.read_to_end(&mut answer);
    });
    String::from_utf8(answer).expect("text")
}
