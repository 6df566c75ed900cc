//! A range of values a header field runs through.

/// Consecutive values: `first`, `first + 1`, ... `count` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Values {
    first: u128,
    count: u64,
}

impl Values {
    /// A single value.
    pub const fn one(value: u128) -> Values {
        Values { first: value, count: 1 }
    }

    /// `first` to `last`; `None` when `last` is smaller or there are more than
    /// 2^32 values.
    pub fn between(first: u128, last: u128) -> Option<Values> {
        let count = last.checked_sub(first)?.checked_add(1)?;
        (count <= 1 << 32).then_some(Values { first, count: count as u64 })
    }

    /// Number of values.
    #[inline]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The value at `index`, which is below the count.
    #[inline]
    pub const fn at(&self, index: u64) -> u128 {
        self.first + index as u128
    }

    /// The largest value.
    pub const fn last(&self) -> u128 {
        self.at(self.count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let values = Values::between(10, 12).unwrap();
        assert_eq!((values.count(), values.at(2), values.last()), (3, 12, 12));
        assert_eq!(Values::between(5, 4), None);
        assert_eq!(Values::between(0, 1 << 33), None);
        assert_eq!(Values::between(0, u128::MAX), None);
        assert_eq!(Values::one(7).last(), 7);
    }
}
