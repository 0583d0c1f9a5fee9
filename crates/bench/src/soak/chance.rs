//! Chance that can be repeated: SplitMix64.

use std::ops::RangeInclusive;

/// A source of numbers that all follow from its seed.
#[derive(Clone, Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in a range.
    pub(super) fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        let width = range.end().saturating_sub(*range.start()).saturating_add(1);
        range.start() + self.next() % width.max(1)
    }

    /// True in so many of a hundred cases.
    pub(super) fn percent(&mut self, share: u64) -> bool {
        self.within(1..=100) <= share
    }

    /// One of these.
    pub(super) fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let last = all.len().checked_sub(1)?;
        let index = self.within(0..=u64::try_from(last).ok()?);
        all.get(usize::try_from(index).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_is_the_same_story() {
        let (mut one, mut other) = (Chance::new(7), Chance::new(7));
        for _ in 0..100 {
            assert_eq!(one.within(3..=9), other.within(3..=9));
        }
        assert!((3..=9).contains(&one.within(3..=9)));
        assert_eq!(one.one_of::<u8>(&[]), None);
        assert!(one.percent(100) && !one.percent(0));
    }
}
