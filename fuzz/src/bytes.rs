//! Reader of choices from the bytes of an input.

/// The rest of an input. Zeros follow its end.
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// At most so many bytes.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A number below `limit`, which is at most 65536.
    pub fn below(&mut self, limit: usize) -> usize {
        let mut number = usize::from(self.byte());
        if limit > 256 {
            number = number << 8 | usize::from(self.byte());
        }
        number % limit.max(1)
    }

    pub fn one_in(&mut self, number: usize) -> bool {
        self.below(number) == number - 1
    }

    pub fn choice<'c, T>(&mut self, among: &'c [T]) -> &'c T {
        &among[self.below(among.len())]
    }
}
