//! Requests in flight on one connection.

use std::collections::VecDeque;

/// Data of each unanswered request, oldest first.
#[derive(Debug, Default)]
pub(crate) struct InFlight<T> {
    /// `None` for requests answered out of order.
    asked: VecDeque<Option<T>>,
    /// Index on the connection of the first element of `asked`.
    first: u64,
    open: usize,
}

impl<T: Default> InFlight<T> {
    /// Resets the state for a new connection.
    pub(crate) fn reset(&mut self) {
        *self = Self { asked: std::mem::take(&mut self.asked), ..Self::default() };
        self.asked.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.open
    }

    pub(crate) fn push(&mut self, asked: T) {
        self.asked.push_back(Some(asked));
        self.open += 1;
    }

    /// Removes the request of index `number`, by default the oldest. `None` if there is no such request.
    pub(crate) fn complete(&mut self, number: Option<u64>) -> Option<T> {
        let at = usize::try_from(number.unwrap_or(self.first).checked_sub(self.first)?).ok()?;
        let asked = self.asked.get_mut(at)?.take()?;
        self.open -= 1;
        while let Some(None) = self.asked.front() {
            self.asked.pop_front();
            self.first += 1;
        }
        Some(asked)
    }

    /// Removes all remaining requests, which will not be answered.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.open = 0;
        self.first += self.asked.len() as u64;
        self.asked.drain(..).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_in_and_out_of_order() {
        let mut flight = InFlight::default();
        (10..15).for_each(|start| flight.push(start));
        assert_eq!(flight.complete(None), Some(10));
        assert_eq!(flight.complete(Some(3)), Some(13));
        assert_eq!(
            (flight.complete(Some(3)), flight.complete(Some(9)), flight.len()),
            (None, None, 3)
        );
        assert_eq!(
            (flight.complete(None), flight.complete(None), flight.len()),
            (Some(11), Some(12), 1)
        );
        flight.push(15);
        assert_eq!(flight.complete(Some(5)), Some(15));
        assert_eq!(flight.drain().collect::<Vec<_>>(), [14]);
        assert!(flight.is_empty());
        flight.push(16);
        assert_eq!((flight.complete(Some(0)), flight.complete(Some(6))), (None, Some(16)));
        flight.reset();
        flight.push(17);
        assert_eq!(flight.complete(Some(0)), Some(17));
    }
}
