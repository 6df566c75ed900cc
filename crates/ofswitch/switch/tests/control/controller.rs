//! A controller whose messages a test chooses, and a switch for it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate_ofswitch::control::{Agent, AgentOptions, Target};
use linerate_ofswitch::switch::{Switch, SwitchOptions};
use linerate_openflow::wire::{
    ErrorMessage, Fault, Header, Hello, Message, Port, PortConfig, PortNumber, PortState, Stream,
    Version,
};

/// Limit of waits for expected events.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Time for which no message may come, where none is expected.
const PAUSE: Duration = Duration::from_millis(150);

/// A switch with four tables and three ports.
pub(crate) fn switch() -> Arc<Switch> {
    let options = SwitchOptions { tables: 4, datapath: 0x42, ..SwitchOptions::default() };
    let switch = Switch::new(options);
    for number in 1..=3 {
        switch.add_port(port(number), 0);
    }
    switch
}

pub(crate) fn port(number: u32) -> Port {
    Port {
        number: PortNumber(number),
        address: [2, 0, 0, 0, 0, number as u8],
        name: format!("port{number}"),
        config: PortConfig::default(),
        state: PortState::LIVE,
        ethernet: None,
        others: Vec::new(),
    }
}

/// An agent of a switch that listens at a UNIX socket, with its folder.
pub(crate) struct Served {
    pub(crate) agent: Agent,
    pub(crate) folder: tempfile::TempDir,
}

impl Served {
    pub(crate) fn new(change: impl FnOnce(&mut AgentOptions)) -> Served {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let mut options = AgentOptions {
            targets: vec![Target::ListenUnix(folder.path().join("switch"))],
            ..AgentOptions::default()
        };
        change(&mut options);
        let agent = Agent::start(switch(), options).expect("an agent");
        Served { agent, folder }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("switch")
    }

    pub(crate) fn switch(&self) -> &Arc<Switch> {
        self.agent.switch()
    }

    /// A controller that has agreed on a version.
    pub(crate) fn controller(&self, version: Version) -> Controller {
        Controller::at(&self.path(), version)
    }
}

/// A connection's bytes.
pub(crate) trait Connection: Read + Write + Send {
    fn set_timeout(&self, time: Duration);
}

impl Connection for UnixStream {
    fn set_timeout(&self, time: Duration) {
        self.set_read_timeout(Some(time)).expect("a time");
    }
}

impl Connection for TcpStream {
    fn set_timeout(&self, time: Duration) {
        self.set_read_timeout(Some(time)).expect("a time");
    }
}

pub(crate) struct Controller {
    pub(crate) connection: Box<dyn Connection>,
    stream: Stream,
    version: Version,
    xid: u32,
}

impl Controller {
    /// Connects and sends a hello.
    #[track_caller]
    pub(crate) fn at(path: &Path, version: Version) -> Controller {
        let stream = UnixStream::connect(path).expect("the switch listens");
        Controller::over(Box::new(stream), version)
    }

    /// Exchanges hellos.
    #[track_caller]
    pub(crate) fn over(connection: Box<dyn Connection>, version: Version) -> Controller {
        let mut controller = Controller { connection, stream: Stream::new(), version, xid: 100 };
        controller.send(&Message::Hello(Hello::from_versions(&[version])));
        let first = controller.next_bytes(PATIENCE).expect("a hello");
        assert_eq!(first.get(1), Some(&0), "hello comes first");
        controller
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.connection.write_all(bytes).expect("the switch reads");
    }

    /// Sends a message and returns its transaction.
    #[track_caller]
    pub(crate) fn send(&mut self, message: &Message) -> u32 {
        self.xid += 1;
        let bytes = message.encode(self.version, self.xid).expect("the version has it");
        self.write(&bytes);
        self.xid
    }

    /// The transaction of the message that is sent next.
    pub(crate) fn following(&self) -> u32 {
        self.xid + 1
    }

    /// The next message's bytes; `None` when the connection ends or the time is over.
    pub(crate) fn next_bytes(&mut self, time: Duration) -> Option<Vec<u8>> {
        let deadline = Instant::now() + time;
        let mut buffer = [0; 1 << 16];
        loop {
            if let Some(bytes) = self.stream.next_message().expect("lengths are right") {
                return Some(bytes.to_vec());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.connection.set_timeout(left);
            match self.connection.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.stream.push(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }

    #[track_caller]
    pub(crate) fn next(&mut self) -> (u32, Message) {
        let bytes = self.next_bytes(PATIENCE).expect("the switch says something");
        let header = Header::read(&bytes).expect("a header");
        match Message::decode(&bytes) {
            Ok((version, xid, message)) => {
                assert_eq!(version, self.version);
                (xid, message)
            }
            Err(fault) => panic!("{header:?}: {fault}: {bytes:02x?}"),
        }
    }

    /// Returns the answer to a message, which must come next.
    #[track_caller]
    pub(crate) fn ask(&mut self, message: &Message) -> Message {
        let xid = self.send(message);
        let (said, answer) = self.next();
        assert_eq!(said, xid, "{answer:?}");
        answer
    }

    /// Returns the fault of a message, which must come next.
    #[track_caller]
    pub(crate) fn fault(&mut self, message: &Message) -> Fault {
        match self.ask(message) {
            Message::Error(ErrorMessage { code, .. }) => {
                code.fault(self.version).expect("a known error")
            }
            other => panic!("{other:?}"),
        }
    }

    /// Waits until sent messages are processed: the next message is the answer to a barrier.
    #[track_caller]
    pub(crate) fn barrier(&mut self) {
        assert_eq!(self.ask(&Message::BarrierRequest), Message::BarrierReply);
    }

    /// Checks that no message comes.
    #[track_caller]
    pub(crate) fn silence(&mut self) {
        if let Some(bytes) = self.next_bytes(PAUSE) {
            panic!("{:?}", Message::decode(&bytes));
        }
    }

    /// The connection ends.
    #[track_caller]
    pub(crate) fn end(&mut self) {
        let began = Instant::now();
        while let Some(bytes) = self.next_bytes(PATIENCE) {
            assert!(began.elapsed() < PATIENCE, "{:?}", Message::decode(&bytes));
        }
        assert!(began.elapsed() < PATIENCE, "it goes on");
    }
}
