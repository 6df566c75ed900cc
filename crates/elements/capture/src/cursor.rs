//! Cursor over a text of options.

/// Rest of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a>(pub(super) &'a str);

impl Cursor<'_> {
    /// Steps over `word` if the text goes on with it.
    pub(super) fn eat(&mut self, word: &str) -> bool {
        match self.0.strip_prefix(word) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// Returns true if the text goes on with a digit.
    pub(super) fn at_digit(&self) -> bool {
        self.0.starts_with(|c: char| c.is_ascii_digit())
    }

    /// Steps over a number, decimal, or as C writes octal and hexadecimal.
    pub(super) fn number(&mut self) -> Option<u32> {
        let (digits, radix) = match self.0.as_bytes() {
            [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => (&self.0[2..], 16),
            [b'0', b'0'..=b'7', ..] => (&self.0[1..], 8),
            _ => (self.0, 10),
        };
        let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
        let number = u32::from_str_radix(&digits[..end], radix).ok()?;
        self.0 = &digits[end..];
        Some(number)
    }

    /// Steps over a number below 256.
    pub(super) fn byte(&mut self) -> Option<u8> {
        self.number()?.try_into().ok()
    }

    /// Steps over an IPv4 address.
    pub(super) fn address(&mut self) -> Option<[u8; 4]> {
        let mut address = [0; 4];
        for (at, byte) in address.iter_mut().enumerate() {
            if at > 0 && !self.eat(".") {
                return None;
            }
            let end = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
            *byte = self.0[..end].parse().ok()?;
            self.0 = &self.0[end..];
        }
        Some(address)
    }

    /// An option by number, with its bytes if it has some: `99=0:5`.
    pub(super) fn numbered(&mut self, out: &mut Vec<u8>) -> Option<()> {
        out.push(self.byte()?);
        let data = |cursor: &Cursor<'_>, mark| {
            let mut ahead = *cursor;
            ahead.eat(mark) && ahead.at_digit()
        };
        if data(self, "=") {
            let length_at = out.len();
            out.push(0);
            let mut mark = "=";
            while data(self, mark) {
                self.eat(mark);
                out.push(self.byte()?);
                mark = ":";
            }
            out[length_at] = u8::try_from(out.len() - length_at + 1).ok()?;
        }
        Some(())
    }

    /// Takes the separator of options; `false` at the end of the text.
    pub(super) fn separator(&mut self) -> Option<bool> {
        if self.0.is_empty() {
            return Some(false);
        }
        (self.eat(";") || self.eat(",")).then_some(true)
    }
}

/// The options as they go into a header: at most 40 bytes, without padding in
/// front that does not fit.
pub(super) fn fit(options: &mut Vec<u8>) -> Option<()> {
    let padding = options.iter().take_while(|kind| **kind == 1).count();
    let surplus = options.len().saturating_sub(40).min(padding);
    options.drain(..surplus);
    (options.len() <= 40).then_some(())
}
