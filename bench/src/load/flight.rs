//! Requests under way on one connection.

use std::collections::VecDeque;

/// When each request was meant to start that is not answered yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// None for those that were answered before an older one was.
    starts: VecDeque<Option<u64>>,
    /// The number of the first of these, counted since the connection was made.
    first: u64,
    open: usize,
}

impl Flight {
    /// A connection is made.
    pub(crate) fn reset(&mut self) {
        *self = Self { starts: std::mem::take(&mut self.starts), ..Self::default() };
        self.starts.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.open
    }

    pub(crate) fn push(&mut self, start: u64) {
        self.starts.push_back(Some(start));
        self.open += 1;
    }

    /// The request of this `number` has its answer, or without one the oldest. None if there is no such
    /// request.
    pub(crate) fn land(&mut self, number: Option<u64>) -> Option<u64> {
        let at = usize::try_from(number.unwrap_or(self.first).checked_sub(self.first)?).ok()?;
        let start = self.starts.get_mut(at)?.take()?;
        self.open -= 1;
        while let Some(None) = self.starts.front() {
            self.starts.pop_front();
            self.first += 1;
        }
        Some(start)
    }

    /// All that are left will have no answer.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = u64> {
        self.open = 0;
        self.first += self.starts.len() as u64;
        self.starts.drain(..).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_and_out_of_it() {
        let mut flight = Flight::default();
        (10..15).for_each(|start| flight.push(start));
        assert_eq!(flight.land(None), Some(10));
        assert_eq!(flight.land(Some(3)), Some(13));
        assert_eq!((flight.land(Some(3)), flight.land(Some(9)), flight.len()), (None, None, 3));
        assert_eq!((flight.land(None), flight.land(None), flight.len()), (Some(11), Some(12), 1));
        flight.push(15);
        assert_eq!(flight.land(Some(5)), Some(15));
        assert_eq!(flight.drain().collect::<Vec<_>>(), [14]);
        assert!(flight.is_empty());
        flight.push(16);
        assert_eq!((flight.land(Some(0)), flight.land(Some(6))), (None, Some(16)));
        flight.reset();
        flight.push(17);
        assert_eq!(flight.land(Some(0)), Some(17));
    }
}
