//! Numbers of several runs, and what is said of them: the middle, and from where to where they went.

use std::fmt;

/// What several runs gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// Adds what one more run gave.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
        self.0.sort_by(f64::total_cmp);
    }

    /// How many runs there were.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Was there no run at all?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value that `share` (0 to 1) of the runs do not exceed, between two runs by proportion.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let Some(last) = self.0.len().checked_sub(1) else { return f64::NAN };
        let place = share.clamp(0.0, 1.0) * last as f64;
        let below = (0..=last).rev().find(|index| *index as f64 <= place).unwrap_or(0);
        let value = |index: usize| self.0.get(index.min(last)).copied().unwrap_or(f64::NAN);
        value(below) + (value(below + 1) - value(below)) * (place - below as f64)
    }

    /// The sum by the number.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// The middle.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The smallest.
    #[must_use]
    pub fn least(&self) -> f64 {
        self.quantile(0.0)
    }

    /// The largest.
    #[must_use]
    pub fn most(&self) -> f64 {
        self.quantile(1.0)
    }

    /// The middle and the spread, as in a table: `12.3 (11.8–13.0)`.
    #[must_use]
    pub fn shown(&self, digits: usize) -> String {
        format!("{:.digits$} ({:.digits$}–{:.digits$})", self.median(), self.least(), self.most())
    }
}

impl FromIterator<f64> for Sample {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_ends() {
        let sample: Sample = [5.0, 1.0, 3.0, 2.0, 4.0].into_iter().collect();
        assert_eq!((sample.median(), sample.least(), sample.most()), (3.0, 1.0, 5.0));
        assert_eq!(sample.quantile(0.95), 4.8);
        assert_eq!(sample.shown(1), "3.0 (1.0–5.0)");
    }

    #[test]
    fn of_one_and_of_none() {
        let mut sample = Sample::default();
        assert!(sample.is_empty() && sample.median().is_nan());
        sample.push(7.0);
        assert_eq!(sample.shown(0), "7 (7–7)");
    }
}
