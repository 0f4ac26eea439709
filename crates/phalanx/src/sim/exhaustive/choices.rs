//! The choices of a run, and a depth-first search for the next run.

/// One choice among several options.
#[derive(Clone, Copy, Debug)]
struct Choice {
    taken: usize,
    options: usize,
}

/// The choices of the current run. A run repeats the choices of the previous one up to the one that must change,
/// changes it, and takes the first option in all later choices.
#[derive(Debug, Default)]
pub(super) struct Choices {
    all: Vec<Choice>,
    /// The number of choices that this run has made.
    depth: usize,
    /// The number of choices that this run repeats or changes.
    prefix_length: usize,
    /// The maximum number of choices in one run that are not the first option.
    max_deviations: Option<usize>,
    /// The number of options that were not taken because of that bound.
    pub(super) skipped: u64,
}

impl Choices {
    pub(super) fn new(max_deviations: Option<usize>) -> Self {
        Self { max_deviations, ..Self::default() }
    }

    /// The choices of one run, to repeat it.
    pub(super) fn of(taken: impl IntoIterator<Item = usize>) -> Self {
        let all: Vec<_> =
            taken.into_iter().map(|taken| Choice { taken, options: usize::MAX }).collect();
        Self { prefix_length: all.len(), all, ..Self::default() }
    }

    /// Chooses one of `options`.
    ///
    /// # Panics
    /// If the program differs from the previous run under the same choices.
    pub(super) fn choose(&mut self, options: usize) -> usize {
        if options == 1 {
            return 0;
        }
        match self.all.get_mut(self.depth) {
            None => self.all.push(Choice { taken: 0, options }),
            Some(known) if known.options == usize::MAX => known.options = options,
            Some(known) => assert_eq!(
                known.options, options,
                "the program is not reproducible: a run with the same choices has other options; derive time, \
                 random numbers and orders of iteration from the world"
            ),
        }
        let taken = self.all[self.depth].taken;
        assert!(taken < options, "the schedule chooses option {taken} of {options}");
        self.depth += 1;
        taken
    }

    /// The number of choices made.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// The options taken since `depth` choices.
    pub(super) fn since(&self, depth: usize) -> impl Iterator<Item = usize> + '_ {
        self.all[depth..self.depth].iter().map(|choice| choice.taken)
    }

    /// Whether this run has made all choices that were given.
    pub(super) fn is_beyond_given(&self) -> bool {
        self.depth >= self.prefix_length
    }

    /// The number of choices other than the first option.
    pub(super) fn deviations(&self) -> usize {
        self.all[..self.depth].iter().filter(|choice| choice.taken > 0).count()
    }

    /// Prepares the next run. Returns `false` if there is none.
    pub(super) fn advance(&mut self) -> bool {
        self.all.truncate(self.depth);
        self.depth = 0;
        while let Some(last) = self.all.pop() {
            let before = self.all.iter().filter(|choice| choice.taken > 0).count();
            let remaining = last.options - last.taken - 1;
            if remaining > 0 && self.max_deviations.is_none_or(|max| before < max) {
                self.all.push(Choice { taken: last.taken + 1, ..last });
                self.prefix_length = self.all.len();
                return true;
            }
            self.skipped += remaining as u64;
        }
        false
    }

    /// The options taken, without trailing first options.
    pub(super) fn schedule(&self) -> String {
        let taken = self.all[..self.depth].iter().map(|choice| choice.taken).collect::<Vec<_>>();
        let length = taken.iter().rposition(|taken| *taken > 0).map_or(0, |last| last + 1);
        let words: Vec<_> = taken[..length].iter().map(ToString::to_string).collect();
        if words.is_empty() { "0".into() } else { words.join(".") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All runs of a program that makes three binary choices, of which the last exists only after a one.
    fn runs(max_deviations: Option<usize>) -> (Vec<Vec<usize>>, u64) {
        let mut choices = Choices::new(max_deviations);
        let mut runs = Vec::new();
        loop {
            let (first, second) = (choices.choose(2), choices.choose(2));
            if first == 1 {
                choices.choose(3);
            }
            let _ = second;
            runs.push(choices.since(0).collect());
            if !choices.advance() {
                return (runs, choices.skipped);
            }
        }
    }

    #[test]
    fn all_runs_are_made_once() {
        let all: [&[usize]; 8] = [
            &[0, 0],
            &[0, 1],
            &[1, 0, 0],
            &[1, 0, 1],
            &[1, 0, 2],
            &[1, 1, 0],
            &[1, 1, 1],
            &[1, 1, 2],
        ];
        assert_eq!(runs(None), (all.map(<[usize]>::to_vec).to_vec(), 0));
    }

    #[test]
    fn deviations_are_bounded_and_the_rest_is_counted() {
        let (all, skipped) = runs(Some(1));
        assert_eq!(all, [vec![0, 0], vec![0, 1], vec![1, 0, 0]]);
        assert_eq!(skipped, 3); // two options of the third choice, and the second of the second
    }

    #[test]
    fn a_schedule_is_repeated() {
        let mut choices = Choices::of([1, 0, 2]);
        assert_eq!(
            [choices.choose(2), choices.choose(2), choices.choose(3), choices.choose(9)],
            [1, 0, 2, 0]
        );
        assert_eq!(choices.schedule(), "1.0.2");
    }
}
