//! Statistics segment of a cluster, memory that any client may read: while its consumers live and
//! after, without a message. The format is in `docs/cluster.md`.

use std::os::fd::{AsFd, OwnedFd};

use linerate_memory::shared::{AttachError, StatsSegment, StatsView};

use crate::wire::{NAME_MAX, WEIGHTS_MAX};

/// Consumers there is a line for.
pub const LINES: usize = 63;
/// Balancers there is a line for.
pub const BALANCERS: usize = 63;

/// `LRFIGURE` as bytes in memory.
const MAGIC: u64 = u64::from_ne_bytes(*b"LRFIGURE");
const VERSION: u64 = 1;

/// Offsets of the parts, in words.
mod word {
    use super::{LINES, NAME_WORDS};

    pub(super) const MAGIC: usize = 0;
    pub(super) const VERSION: usize = 1;
    pub(super) const SERVER: usize = 2;
    pub(super) const BUFFERS: usize = 3;
    /// Lines of consumers: a name and numbers.
    pub(super) const LINES_AT: usize = 8;
    pub(super) const LINE: usize = 32;
    pub(super) const NUMBERS: usize = NAME_WORDS;
    /// Lines of balancers: a name, how many consumers, and of each its line, weight and buckets.
    pub(super) const BALANCERS_AT: usize = LINES_AT + LINES * LINE;
    pub(super) const BALANCER: usize = 80;
    pub(super) const COUNT: usize = NAME_WORDS;
    pub(super) const SHARES: usize = NAME_WORDS + 1;
}

const NAME_WORDS: usize = (NAME_MAX + 1) / 8;
const WORDS: usize = word::BALANCERS_AT + BALANCERS * word::BALANCER;

const _: () = assert!(word::SHARES + WEIGHTS_MAX <= word::BALANCER);

/// The words of a consumer's line, in their order: names and meanings.
macro_rules! figures {
    ($($(#[doc = $says:literal])+ $name:ident,)+) => {
        /// Figures of a consumer, in the order of the words in its line.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Figures {
            $($(#[doc = $says])+ pub $name: u64,)+
        }

        impl Figures {
            const COUNT: usize = [$(stringify!($name)),+].len();

            fn words(&self) -> [u64; Figures::COUNT] {
                [$(self.$name),+]
            }

            fn of_words(words: [u64; Figures::COUNT]) -> Figures {
                let [$($name),+] = words;
                Figures { $($name),+ }
            }
        }
    };
}

figures! {
    /// State: 0 no consumer is attached, 1 one is, 2 one was told to go and has not.
    state,
    /// Process number of the consumer, or of the last one.
    process,
    /// Access: 0 read, 1 write, 2 read and write copies in memory of its own.
    access,
    /// Most buffers it holds.
    cells,
    /// Times a consumer was attached.
    attached,
    /// Times a consumer went without having given back all buffers it held.
    died,
    /// Buffers that were taken back from those.
    reclaimed,
    /// Packets lent to it.
    packets,
    /// Their bytes.
    bytes,
    /// Packets for it that it did not get because it did not keep up.
    lost_full,
    /// Packets for it that it did not get because it was not attached.
    lost_absent,
    /// Packets it has sent.
    sent,
    /// Their bytes.
    sent_bytes,
    /// Packets it has sent and no element received: no `FromConsumer` is there, or, of a consumer in memory of
    /// its own, there was no buffer to copy one to, or it may only read.
    unheard,
    /// Words on its ring that named no buffer it holds.
    malformed,
    /// Buffers it holds now.
    held,
    /// Packets that wait for it now, which it has not looked at.
    waiting,
    /// Bytes that were copied for it: none where packets are shared.
    copied,
    /// Packets it has let pass, or of a flow of which it has said so.
    passed,
    /// Packets it has not let pass, or of a flow of which it has said so.
    denied,
    /// Packets it was asked about and did not answer for in time, or went.
    unanswered,
    /// Packets it was not asked about: it was not there, silent, or held as many as it may.
    unasked,
    /// Answers that came when no packet waited for them any more.
    late,
    /// Times a consumer was detached because it flooded its doorbell.
    floods,
}

const _: () = assert!(word::NUMBERS + Figures::COUNT <= word::LINE);

/// The part of a consumer in a balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The line of the consumer.
    pub line: usize,
    /// Its weight.
    pub weight: u32,
    /// Buckets it has now.
    pub buckets: usize,
}

/// The server's side.
#[derive(Debug)]
pub(crate) struct FigureBoard(StatsSegment);

impl FigureBoard {
    pub(crate) fn create(buffers: usize) -> Result<FigureBoard, AttachError> {
        let board = StatsSegment::create("linerate-figures", WORDS)?;
        board.set(word::VERSION, VERSION);
        board.set(word::SERVER, u64::from(std::process::id()));
        board.set(word::BUFFERS, buffers as u64);
        board.set(word::MAGIC, MAGIC);
        Ok(FigureBoard(board))
    }

    pub(crate) fn file(&self) -> std::io::Result<OwnedFd> {
        self.0.file()
    }

    fn set_name(&self, at: usize, name: &str) {
        let mut bytes = [0; NAME_MAX + 1];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        for (word, piece) in bytes.chunks(8).enumerate() {
            self.0.set(at + word, u64::from_ne_bytes(piece.try_into().expect("eight bytes")));
        }
    }

    /// Begins the line of a consumer, or ends it with an empty name.
    pub(crate) fn set_line(&self, line: usize, name: &str) {
        self.set_name(word::LINES_AT + line * word::LINE, name);
    }

    pub(crate) fn set_figures(&self, line: usize, figures: &Figures) {
        let at = word::LINES_AT + line * word::LINE + word::NUMBERS;
        self.0.set_from(at, &figures.words());
    }

    /// Sets the shares of a balancer; with an empty name there is none.
    pub(crate) fn set_balancer(&self, place: usize, name: &str, shares: &[Share]) {
        let at = word::BALANCERS_AT + place * word::BALANCER;
        self.set_name(at, name);
        self.0.set(at + word::COUNT, shares.len() as u64);
        for (number, share) in shares.iter().enumerate() {
            let packed =
                (share.line as u64) << 48 | (share.buckets as u64) << 32 | u64::from(share.weight);
            self.0.set(at + word::SHARES + number, packed);
        }
    }
}

/// A reader's side.
#[derive(Debug)]
pub struct FigureView(StatsView);

impl FigureView {
    /// Maps the figures that a server has handed out.
    ///
    /// # Errors
    ///
    /// When the file is not what it should be, or the kernel refuses.
    pub fn open(file: impl AsFd) -> Result<FigureView, AttachError> {
        let view = StatsView::open(file, WORDS)?;
        if view.get(word::MAGIC) != MAGIC || view.get(word::VERSION) != VERSION {
            return Err(AttachError::Version("the board of figures"));
        }
        Ok(FigureView(view))
    }

    /// The number of the server's process.
    pub fn server(&self) -> u64 {
        self.0.get(word::SERVER)
    }

    /// Buffers of its arena.
    pub fn buffers(&self) -> u64 {
        self.0.get(word::BUFFERS)
    }

    fn name(&self, at: usize) -> Option<String> {
        let bytes: Vec<u8> =
            (0..NAME_WORDS).flat_map(|word| self.0.get(at + word).to_ne_bytes()).collect();
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(NAME_MAX);
        let name = String::from_utf8_lossy(&bytes[..end]).into_owned();
        (!name.is_empty()).then_some(name)
    }

    /// The figures of one line.
    ///
    /// # Panics
    ///
    /// When there is no such line.
    pub fn figures(&self, line: usize) -> Figures {
        assert!(line < LINES, "line {line} of {LINES}");
        let at = word::LINES_AT + line * word::LINE + word::NUMBERS;
        Figures::of_words(std::array::from_fn(|place| self.0.get(at + place)))
    }

    /// All consumers there are: their lines and names.
    pub fn consumers(&self) -> Vec<(usize, String)> {
        let name = |line: usize| Some((line, self.name(word::LINES_AT + line * word::LINE)?));
        (0..LINES).filter_map(name).collect()
    }

    /// All balancers there are, by name.
    pub fn balancers(&self) -> Vec<(String, Vec<Share>)> {
        let balancer = |place: usize| {
            let at = word::BALANCERS_AT + place * word::BALANCER;
            let name = self.name(at)?;
            let count = (self.0.get(at + word::COUNT) as usize).min(WEIGHTS_MAX);
            let share = |number: usize| {
                let packed = self.0.get(at + word::SHARES + number);
                Share {
                    line: (packed >> 48) as usize % LINES,
                    buckets: (packed >> 32) as usize & 0xffff,
                    weight: packed as u32,
                }
            };
            Some((name, (0..count).map(share).collect()))
        };
        (0..BALANCERS).filter_map(balancer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_the_server_are_read() {
        let board = FigureBoard::create(77).unwrap();
        let view = FigureView::open(board.file().unwrap()).unwrap();
        assert_eq!((view.buffers(), view.server()), (77, u64::from(std::process::id())));
        assert_eq!((view.consumers(), view.balancers()), (Vec::new(), Vec::new()));
        let name = "x".repeat(NAME_MAX);
        let figures = Figures::of_words(std::array::from_fn(|word| word as u64 + 1));
        assert_eq!((figures.state, figures.waiting, figures.late), (1, 17, 23));
        board.set_line(62, &name);
        board.set_figures(62, &figures);
        let shares = vec![Share { line: 62, weight: u32::MAX, buckets: 1024 }; WEIGHTS_MAX];
        board.set_balancer(62, "b", &shares);
        assert_eq!(view.consumers(), [(62, name)]);
        assert_eq!(view.figures(62), figures);
        assert_eq!(view.balancers(), [("b".to_string(), shares)]);
        board.set_line(62, "");
        board.set_balancer(62, "", &[]);
        assert_eq!((view.consumers(), view.balancers()), (Vec::new(), Vec::new()));
    }

    #[test]
    fn other_files_are_no_figures() {
        let board = StatsSegment::create("other", WORDS).unwrap();
        assert!(FigureView::open(board.file().unwrap()).is_err());
        assert!(
            FigureView::open(StatsSegment::create("short", 9).unwrap().file().unwrap()).is_err()
        );
    }
}
