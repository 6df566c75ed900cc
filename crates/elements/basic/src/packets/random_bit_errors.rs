//! `RandomBitErrors`: bit errors of a line.
//!
//! Each bit is wrong with the same probability, independently of the others. So
//! the number of bits from one error to the next is geometrically distributed:
//! it is drawn, by inversion, instead of every bit.

use linerate_graph::{
    Arguments, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError,
    HandlerResult, NoBuffer, Right, unquoted,
};
use linerate_memory::{Frame, Slot};

use super::FAMILY;
use linerate_element_support::{
    handler_values::{boolean, record_argument},
    random::{Probability, Random},
};

pub(super) const CLASS: Class = Class {
    name: "RandomBitErrors",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "changes bits with a probability",
    description: "Each bit is flipped, set or cleared with probability `P`. In simulated time \
        every run changes the same bits.",
    ports: "1/1",
    handlers: &[
        Handler::value("p_bit_error", "the probability of a bit being changed"),
        Handler::value("error_kind", "what becomes of the bit"),
        Handler::value("active", "whether bits are changed"),
    ],
    drops: NoBuffer::REASONS,
    cost: "A few cycles per packet, and some 50 per bit changed.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> RandomBitErrors(0.001) -> Discard;",
    ..Class::for_element::<RandomBitErrors>()
};

#[derive(Debug, Clone, Copy)]
enum BitError {
    Clear,
    Set,
    Flip,
}

impl BitError {
    fn parse(text: &str) -> Result<BitError, String> {
        match text {
            "flip" | "" => Ok(BitError::Flip),
            "set" => Ok(BitError::Set),
            "clear" => Ok(BitError::Clear),
            _ => Err(format!("bad action '{text}' (must be 'set', 'clear', or 'flip')")),
        }
    }
}

#[derive(Arguments)]
#[arguments(check = RandomBitErrors::check)]
struct RandomBitErrors {
    /// of a bit being changed
    #[arg(name = "P", kind = "probability")]
    probability: Probability,
    /// what becomes of the bit
    #[arg(optional, kind = "flip, set or clear", shown = "flip", with = kind)]
    kind: BitError,
    /// whether bits are changed
    #[arg(optional, default = true)]
    active: bool,
    /// Bits before the next error, over packets.
    gap: u64,
    #[init(Random::new(make))]
    random: Random,
    failed: Vec<Slot>,
}

fn kind(make: &mut ElementBuilder<'_>, name: &str) -> BitError {
    let kind = make.or(name, String::new());
    BitError::parse(&kind).unwrap_or_else(|error| {
        make.error(error);
        BitError::Flip
    })
}

impl RandomBitErrors {
    fn check(&mut self, make: &mut ElementBuilder<'_>) {
        if self.probability > Probability::ONE {
            make.error("drop probability must be between 0 and 1");
        } else if make.is_given("P") && self.probability.0 == 0 {
            make.warn("zero bit error probability (underflow?)");
        }
        self.gap = self.draw();
    }

    fn draw(&mut self) -> u64 {
        if self.probability.0 == 0 {
            return u64::MAX;
        }
        // Conversion saturates, and for certain errors all gaps are zero.
        ((1.0 - self.random.unit()).ln() / (-self.probability.as_f64()).ln_1p()) as u64
    }

    /// Changes the bits of a packet whose turn it is.
    fn change(&mut self, bytes: &mut [u8]) {
        let bits = bytes.len() as u64 * 8;
        while self.gap < bits {
            let (byte, bit) = ((self.gap / 8) as usize, 1 << (self.gap % 8));
            match self.kind {
                BitError::Clear => bytes[byte] &= !bit,
                BitError::Set => bytes[byte] |= bit,
                BitError::Flip => bytes[byte] ^= bit,
            }
            self.gap = self.draw().saturating_add(self.gap + 1);
        }
    }

    fn set_probability(&mut self, probability: Probability) {
        self.probability = probability;
        self.gap = self.draw();
    }
}

impl Element for RandomBitErrors {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        if !self.active || self.probability.0 == 0 {
            return;
        }
        let mut failed = std::mem::take(&mut self.failed);
        let spared = |slot: &mut Slot| {
            let bits = slot.len() as u64 * 8;
            if self.gap < bits {
                if !cx.unshare_one(slot) {
                    return false;
                }
                if let Some(bytes) = cx.pool.arena().packet_mut(slot) {
                    self.change(bytes);
                }
            }
            self.gap = self.gap.saturating_sub(bits);
            true
        };
        frame.retain(spared, |slot| failed.push(slot));
        failed.drain(..).for_each(|slot| cx.drop_packet(slot, NoBuffer));
        self.failed = failed;
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "p_bit_error" => Ok(self.probability.to_string()),
            "error_kind" => Ok(match self.kind {
                BitError::Clear => "clear",
                BitError::Set => "set",
                BitError::Flip => "flip",
            }
            .into()),
            "active" => Ok(self.active.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "p_bit_error" => {
                let read = Probability::read(value.trim());
                let read = read.map_err(|error| HandlerError::Refused(format!("P: {error}")))?;
                if read > Probability::ONE {
                    return Err(HandlerError::refused("drop probability must be between 0 and 1"));
                }
                self.set_probability(read);
                record_argument(cx, 0, "P", value);
            }
            "error_kind" => {
                self.kind =
                    BitError::parse(&unquoted(value.trim())).map_err(HandlerError::Refused)?;
                record_argument(cx, 1, "KIND", value);
            }
            "active" => self.active = boolean(value)?,
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    fn packets(config: &str, frame_limit: usize) -> String {
        let mut run = Run::new(&format!(
            "InfiniteSource(DATA \\<0f 0f 0f 0f>, LIMIT 2000, STOP true)
                -> RandomBitErrors({config}) -> c :: Collect"
        ))
        .frame_limit(frame_limit);
        run.run();
        run.read("c.packets").replace('\n', "")
    }

    #[test]
    fn certain_errors_change_every_bit() {
        for (config, packet) in [
            ("1", "f0f0f0f0"),
            ("1, set", "ffffffff"),
            ("1, clear", "00000000"),
            ("0, flip", "0f0f0f0f"),
            ("1, flip, false", "0f0f0f0f"),
        ] {
            for frame_limit in [1, 256] {
                assert_eq!(packets(config, frame_limit), packet.repeat(2000), "{config}");
            }
        }
    }

    /// With a fixed seed: 64000 bits, 640 wrong with a standard deviation of
    /// 25, and as many in each of the 32 places of a packet, 20 with one of 4.5.
    #[test]
    fn errors_are_as_frequent_as_asked_for_everywhere() {
        let text = packets("0.01", 256);
        assert_eq!(text, packets("0.01", 1));
        let mut places = [0; 32];
        for packet in text.as_bytes().chunks(8) {
            let word = u32::from_str_radix(std::str::from_utf8(packet).unwrap(), 16).unwrap();
            let wrong = word ^ 0x0f0f_0f0f;
            (0..32).for_each(|bit| places[bit] += wrong >> bit & 1);
        }
        assert!((540..740).contains(&places.iter().sum::<u32>()), "{places:?}");
        assert!(places.iter().all(|count| (2..=40).contains(count)), "{places:?}");
    }

    #[test]
    fn copies_are_changed_apart() {
        let mut run = Run::new(
            "InfiniteSource(DATA a, LIMIT 1, STOP true) -> t :: Tee -> RandomBitErrors(1)
                -> a :: Collect; t [1] -> b :: Collect;",
        );
        run.run();
        assert_eq!((run.read("a.packets"), run.read("b.packets")), ("9e".into(), "61".into()));
    }

    #[test]
    fn errors_and_handlers_are_click_s() {
        for (config, error) in [
            ("2", "drop probability must be between 0 and 1"),
            ("0.1, foo", "bad action 'foo' (must be 'set', 'clear', or 'flip')"),
        ] {
            let errors = Run::errors(&format!("Idle -> RandomBitErrors({config}) -> Discard"));
            assert!(errors.ends_with(&format!("\n  {error}\n")), "{errors}");
        }
        let mut run = Run::new("Idle -> e :: RandomBitErrors(0) -> Discard");
        assert_eq!(run.read("e.error_kind"), "flip");
        assert!(run.output().ends_with("\n  warning: zero bit error probability (underflow?)\n"));
        run.write("e.error_kind", "set").unwrap();
        run.write("e.p_bit_error", "0.25").unwrap();
        run.write("e.active", "false").unwrap();
        let handlers = ["e.error_kind", "e.p_bit_error", "e.active"].map(|name| run.read(name));
        assert_eq!(handlers, ["set", "0.25", "false"]);
        assert!(
            run.write("e.p_bit_error", "2").is_err() && run.write("e.error_kind", "x").is_err()
        );
    }
}
