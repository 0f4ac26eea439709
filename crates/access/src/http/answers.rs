//! Cache of answers of a service.

use std::collections::HashMap;
use std::time::Duration;

use super::pool::CallOutOptions;

/// The cached answers by a keyed hash of the credentials, with their expiry times.
#[derive(Default)]
pub(super) struct Answers {
    by_login: HashMap<u64, (bool, Duration)>,
}

impl Answers {
    /// The answer for this hash and its expiry time, if there is a valid one.
    pub(super) fn get(&self, login: u64, at: Duration) -> Option<(bool, Duration)> {
        self.by_login.get(&login).filter(|(_, end)| at < *end).copied()
    }

    /// Caches an answer for its lifetime.
    pub(super) fn insert_for(
        &mut self,
        login: u64,
        allowed: bool,
        at: Duration,
        options: &CallOutOptions,
    ) {
        let end = at + options.lifetime(allowed);
        self.insert(login, (allowed, end), (at, options.max_answers));
    }

    /// Caches an answer. If there are too many, drops expired ones, and the eighth of the others that expires first.
    fn insert(
        &mut self,
        login: u64,
        (allowed, end): (bool, Duration),
        (at, most): (Duration, usize),
    ) {
        let answers = &mut self.by_login;
        if answers.len() >= most {
            answers.retain(|_, (_, end)| at < *end);
            if answers.len() >= most - most / 8 && !answers.is_empty() {
                let mut expiries: Vec<_> = answers.values().map(|(_, end)| *end).collect();
                let count = expiries.len() / 8;
                let (_, last, _) = expiries.select_nth_unstable(count);
                answers.retain(|_, (_, end)| *end > *last);
            }
        }
        if at < end && most > 0 {
            self.by_login.insert(login, (allowed, end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_end_and_are_bounded() {
        let (mut answers, at) = (Answers::default(), Duration::from_secs);
        for login in 0..10 {
            answers.insert(login, (login % 2 == 0, at(10 + login)), (at(0), 4));
        }
        assert_eq!(answers.by_login.len(), 4);
        assert_eq!(
            [5, 6, 7].map(|login| answers.get(login, at(0))),
            [None, Some((true, at(16))), Some((false, at(17)))]
        );
        assert_eq!(answers.get(6, at(16)), None);
        answers.insert(20, (true, at(30)), (at(17), 4));
        assert_eq!(answers.by_login.len(), 3, "those that have ended are dropped");
        answers.insert(21, (true, at(17)), (at(17), 4));
        assert_eq!(answers.get(21, at(17)), None);
    }
}
