//! Messages between a server and its clients, all of one size, each with the descriptors it hands
//! over. The format, field by field, is in `docs/cluster.md`.

/// Bytes of every message.
pub const SIZE: usize = 512;
/// The version both must be of.
pub const VERSION: u32 = 1;
/// `LRCL` as bytes.
const MAGIC: u32 = u32::from_ne_bytes(*b"LRCL");
/// Longest name of a consumer or a balancer, in bytes.
pub const NAME_MAX: usize = 63;
/// Most consumers of a balancer.
pub const WEIGHTS_MAX: usize = 63;
/// Longest explanation, in bytes.
const TEXT_MAX: usize = 255;

/// Offsets of the fields of messages, in bytes.
mod field {
    pub(super) const MAGIC: usize = 0;
    pub(super) const VERSION: usize = 4;
    pub(super) const KIND: usize = 8;
    /// A number, the meaning of which the kind says; so have the next.
    pub(super) const FIRST: usize = 12;
    pub(super) const SECOND: usize = 16;
    pub(super) const THIRD: usize = 20;
    /// A name or an explanation, and zeros.
    pub(super) const TEXT: usize = 24;
    pub(super) const NAME_END: usize = 88;
    pub(super) const TEXT_END: usize = 280;
    /// 32-bit numbers, in messages with a name.
    pub(super) const WEIGHTS: usize = 256;
}

/// Access of a consumer to packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read the packets of all, in place.
    Read,
    /// Read in place, and write packets that it alone holds.
    Write,
    /// Read and write copies, in memory of its own.
    Isolated,
}

impl Access {
    /// Returns true if `self` includes the other access: copies are less than reading, which is
    /// less than writing.
    pub fn includes(self, other: Access) -> bool {
        let order = |access| match access {
            Access::Isolated => 0,
            Access::Read => 1,
            Access::Write => 2,
        };
        order(other) <= order(self)
    }

    /// The access that both include.
    #[must_use]
    pub fn stricter(self, other: Access) -> Access {
        if self.includes(other) { other } else { self }
    }
}

/// Request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// To be the consumer of that name, with that access, or whichever the server grants.
    Attach {
        /// Name of the consumer.
        name: String,
        /// Access asked for.
        access: Option<Access>,
    },
    /// To see the figures.
    Look,
    /// Other weights for a balancer.
    Weigh {
        /// Name of the balancer.
        name: String,
        /// A weight for each of its consumers.
        weights: Vec<u32>,
    },
    /// Detaches a consumer.
    Detach {
        /// Name of the consumer.
        name: String,
    },
}

/// Reply of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The client is a consumer now. With directory, packets, channel, doorbell and figures.
    Attached {
        /// Its line in the figures.
        line: u32,
        /// Access granted.
        access: Access,
        /// Empty buffers it gets for packets of its own.
        spare: u32,
        /// Whether the consumer is asked for the verdict on packets.
        asked: bool,
    },
    /// With the figures.
    Figures,
    /// The request was carried out, on so many buckets.
    Done(u32),
    /// The request was refused.
    Refused(Reason, String),
    /// The client is no consumer any more.
    Ended(Reason),
}

/// Reason of a refusal, or of a detachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The configuration has nothing of that name.
    Unknown,
    /// Another has that name now.
    Taken,
    /// More was asked for than is granted.
    NotGranted,
    /// The client is of another user, which may not do that.
    Stranger,
    /// The message makes no sense, or not now.
    Protocol,
    /// The server has no place for more.
    Full,
    /// The kernel refused something.
    System,
    /// Detached by a request.
    Detached,
    /// Its rings made no sense.
    Broken,
    /// The server ends, or its new configuration has no such consumer.
    Gone,
    /// The consumer flooded its doorbell.
    Flood,
}

impl Reason {
    const ALL: [Reason; 11] = [
        Reason::Unknown,
        Reason::Taken,
        Reason::NotGranted,
        Reason::Stranger,
        Reason::Protocol,
        Reason::Full,
        Reason::System,
        Reason::Detached,
        Reason::Broken,
        Reason::Gone,
        Reason::Flood,
    ];

    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Reason::Unknown => "the configuration has no such name",
            Reason::Taken => "another program has that name",
            Reason::NotGranted => "that access is not granted",
            Reason::Stranger => "programs of another user may not",
            Reason::Protocol => "the message makes no sense",
            Reason::Full => "there is no place for more",
            Reason::System => "the system refused",
            Reason::Detached => "it was detached",
            Reason::Broken => "its rings made no sense",
            Reason::Gone => "the server has ended, or has no such consumer any more",
            Reason::Flood => "it flooded its doorbell",
        }
    }
}

/// Returns true if the name is one for consumers and balancers: 1 to 63 letters, digits, `_`, `-`,
/// `.`, `/`, `@`.
pub fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./@".contains(&byte);
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(fits)
}

/// A message being written.
struct Writing([u8; SIZE]);

impl Writing {
    fn new(kind: u32, numbers: [u32; 3], text: &str) -> Writing {
        let mut message = Writing([0; SIZE]);
        for (at, number) in [(field::MAGIC, MAGIC), (field::VERSION, VERSION), (field::KIND, kind)]
        {
            message.put(at, number);
        }
        for (at, number) in [field::FIRST, field::SECOND, field::THIRD].into_iter().zip(numbers) {
            message.put(at, number);
        }
        let text = &text.as_bytes()[..text.floor_char_boundary(TEXT_MAX)];
        message.0[field::TEXT..][..text.len()].copy_from_slice(text);
        message
    }

    fn put(&mut self, at: usize, number: u32) {
        self.0[at..at + 4].copy_from_slice(&number.to_ne_bytes());
    }
}

/// A message being read.
struct Reading<'a>(&'a [u8; SIZE]);

impl Reading<'_> {
    fn number(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().expect("four bytes"))
    }

    fn name(&self) -> Option<String> {
        self.text(field::NAME_END).filter(|name| is_name(name))
    }

    /// The text in front of the first zero before `limit`.
    fn text(&self, limit: usize) -> Option<String> {
        let text = &self.0[field::TEXT..limit];
        let end = text.iter().position(|&byte| byte == 0)?;
        String::from_utf8(text[..end].to_vec()).ok()
    }
}

/// Beside an access: the consumer is asked for the verdict on packets.
const ASKED: u32 = 4;

fn access_code(access: Option<Access>) -> u32 {
    match access {
        Some(Access::Read) => 0,
        Some(Access::Write) => 1,
        None => 2,
        Some(Access::Isolated) => 3,
    }
}

fn access_of(code: u32) -> Option<Option<Access>> {
    match code {
        0 => Some(Some(Access::Read)),
        1 => Some(Some(Access::Write)),
        2 => Some(None),
        3 => Some(Some(Access::Isolated)),
        _ => None,
    }
}

impl Request {
    /// As it is sent.
    pub fn encode(&self) -> [u8; SIZE] {
        match self {
            Request::Attach { name, access } => {
                Writing::new(1, [access_code(*access), 0, 0], name).0
            }
            Request::Look => Writing::new(2, [0; 3], "").0,
            Request::Weigh { name, weights } => {
                let weights = &weights[..weights.len().min(WEIGHTS_MAX)];
                let mut message = Writing::new(3, [weights.len() as u32, 0, 0], name);
                for (at, weight) in weights.iter().enumerate() {
                    message.put(field::WEIGHTS + 4 * at, *weight);
                }
                message.0
            }
            Request::Detach { name } => Writing::new(4, [0; 3], name).0,
        }
    }

    /// Parses a client's message.
    ///
    /// # Errors
    ///
    /// The reason why it is no request.
    pub fn decode(bytes: &[u8; SIZE]) -> Result<Request, &'static str> {
        let message = checked(bytes)?;
        let name = || message.name().ok_or("no name is like that");
        match message.number(field::KIND) {
            1 => {
                let access = access_of(message.number(field::FIRST)).ok_or("no such access")?;
                Ok(Request::Attach { name: name()?, access })
            }
            2 => Ok(Request::Look),
            3 => {
                let count = message.number(field::FIRST) as usize;
                if count > WEIGHTS_MAX {
                    return Err("too many weights");
                }
                let weight = |at: usize| message.number(field::WEIGHTS + 4 * at);
                Ok(Request::Weigh { name: name()?, weights: (0..count).map(weight).collect() })
            }
            4 => Ok(Request::Detach { name: name()? }),
            _ => Err("no request is of that kind"),
        }
    }
}

impl Reply {
    /// As it is sent.
    pub fn encode(&self) -> [u8; SIZE] {
        let reason = |reason: &Reason| {
            let place = Reason::ALL.iter().position(|other| other == reason);
            place.expect("all are listed") as u32 + 1
        };
        match self {
            Reply::Attached { line, access, spare, asked } => {
                let access = access_code(Some(*access)) | if *asked { ASKED } else { 0 };
                Writing::new(17, [*line, access, *spare], "").0
            }
            Reply::Figures => Writing::new(18, [0; 3], "").0,
            Reply::Done(buckets) => Writing::new(19, [*buckets, 0, 0], "").0,
            Reply::Refused(why, text) => Writing::new(20, [reason(why), 0, 0], text).0,
            Reply::Ended(why) => Writing::new(21, [reason(why), 0, 0], "").0,
        }
    }

    /// Parses a server's message.
    ///
    /// # Errors
    ///
    /// The reason why it is no reply.
    pub fn decode(bytes: &[u8; SIZE]) -> Result<Reply, &'static str> {
        let message = checked(bytes)?;
        let first = message.number(field::FIRST);
        let reason = || {
            let place = (first as usize).checked_sub(1);
            place.and_then(|place| Reason::ALL.get(place)).copied().ok_or("no such reason")
        };
        match message.number(field::KIND) {
            17 => {
                let second = message.number(field::SECOND);
                let access = access_of(second & !ASKED).flatten().ok_or("no such access")?;
                let (spare, asked) = (message.number(field::THIRD), second & ASKED != 0);
                Ok(Reply::Attached { line: first, access, spare, asked })
            }
            18 => Ok(Reply::Figures),
            19 => Ok(Reply::Done(first)),
            20 => Ok(Reply::Refused(
                reason()?,
                message.text(field::TEXT_END).ok_or("no text is like that")?,
            )),
            21 => Ok(Reply::Ended(reason()?)),
            _ => Err("no reply is of that kind"),
        }
    }
}

fn checked(bytes: &[u8; SIZE]) -> Result<Reading<'_>, &'static str> {
    let message = Reading(bytes);
    if message.number(field::MAGIC) != MAGIC {
        return Err("it does not begin as one");
    }
    if message.number(field::VERSION) != VERSION {
        return Err("it is of another version");
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let name = || "a-b_c.d/e@1".to_string();
        for request in [
            Request::Attach { name: name(), access: None },
            Request::Attach { name: "x".repeat(NAME_MAX), access: Some(Access::Write) },
            Request::Attach { name: name(), access: Some(Access::Isolated) },
            Request::Look,
            Request::Weigh { name: "n".repeat(NAME_MAX), weights: (0..63).collect() },
            Request::Weigh { name: name(), weights: Vec::new() },
            Request::Detach { name: name() },
        ] {
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
        let refusals = Reason::ALL.map(|why| Reply::Refused(why, "über".into()));
        let others = [
            Reply::Attached { line: 7, access: Access::Read, spare: 9, asked: false },
            Reply::Attached { line: 7, access: Access::Isolated, spare: 0, asked: true },
            Reply::Figures,
            Reply::Done(3),
            Reply::Ended(Reason::Gone),
        ];
        for reply in refusals.into_iter().chain(others) {
            assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
        }
    }

    #[test]
    fn names_are_short_and_plain() {
        assert!(is_name("ids-0") && is_name(&"x".repeat(63)));
        for wrong in ["", "a b", "a\n", "ü", &"x".repeat(64)] {
            assert!(!is_name(wrong), "{wrong}");
        }
    }

    proptest! {
        /// A message that can be read encodes to a message of the same meaning.
        #[test]
        fn nothing_is_read_that_cannot_be_written(
            kind in 0u32..24, numbers in any::<[u32; 3]>(), text in "[a-z ]{0,70}", small in any::<bool>(),
        ) {
            let numbers = if small { numbers.map(|number| number % 12) } else { numbers };
            let message = Writing::new(kind, numbers, &text).0;
            if let Ok(request) = Request::decode(&message) {
                prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
            }
            if let Ok(reply) = Reply::decode(&message) {
                prop_assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
            }
        }
    }
}
