//! Declared calls: the stages that the operations of a stage invoke.
//!
//! A stage is invoked through its handle, which is a value. The handles that a value contains are therefore the stages
//! that its owner can invoke. [`Handles`] lists them.

use crate::handle::graph::{Graph, Position};
use crate::handle::stage::Stage;
use crate::stage::declaration::StageDeclaration;
use crate::stage::key::Key;

/// A handle, or a value that contains handles. An operation needs it to invoke stages.
///
/// `#[derive(phalanx::stage::Handles)]` implements it for a struct whose fields implement it. `()` contains no handles.
///
/// ```
/// use phalanx_core::{Graph, HandleSet, Handles, SharedStage};
///
/// #[derive(Clone, Copy)]
/// struct Files {
///     cache: SharedStage<()>,
///     disk: Option<SharedStage<()>>,
/// }
///
/// impl Handles for Files {
///     fn add_to(&self, set: &mut HandleSet) {
///         self.cache.add_to(set);
///         self.disk.add_to(set);
///     }
/// }
///
/// let mut graph = Graph::new();
/// let control = graph.shared("control", ());
/// let files = Files { cache: graph.shared("cache", ()), disk: None };
/// graph.calls(control, files);
/// assert_eq!(graph.call_graph().calls.len(), 1);
/// ```
pub trait Handles {
    /// Adds the stages of all handles in this value.
    fn add_to(&self, set: &mut HandleSet);
}

/// A set of stages, collected from handles.
#[derive(Clone, Debug, Default)]
pub struct HandleSet(Vec<Key>);

impl<P> Handles for Stage<P> {
    fn add_to(&self, set: &mut HandleSet) {
        set.0.push(self.key());
    }
}

impl<T: Handles + ?Sized> Handles for &T {
    fn add_to(&self, set: &mut HandleSet) {
        (**self).add_to(set);
    }
}

impl<T: Handles> Handles for Option<T> {
    fn add_to(&self, set: &mut HandleSet) {
        self.iter().for_each(|handles| handles.add_to(set));
    }
}

impl<T: Handles> Handles for [T] {
    fn add_to(&self, set: &mut HandleSet) {
        self.iter().for_each(|handles| handles.add_to(set));
    }
}

impl<T: Handles, const N: usize> Handles for [T; N] {
    fn add_to(&self, set: &mut HandleSet) {
        self[..].add_to(set);
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: Handles),*> Handles for ($($name,)*) {
            #[allow(non_snake_case, unused_variables, reason = "the empty tuple adds nothing")]
            fn add_to(&self, set: &mut HandleSet) {
                let ($($name,)*) = self;
                $($name.add_to(set);)*
            }
        }
    };
}

tuples!();
tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);

impl Graph {
    /// Declares that operations of `from` invoke operations on the stages in `to`; `()` means none. Several
    /// declarations for one stage add up. The runner of a [serial cohort](crate::StageOptions::serial_cohort) need not
    /// be declared.
    ///
    /// Declarations change nothing while the program runs. The [call graph](Self::call_graph) consists of them. The
    /// call graph of a running program also contains the [observed](crate::Control::call_graph) calls. A simulation
    /// fails if a stage with a declaration invokes a stage that it does not declare.
    ///
    /// ```
    /// let mut graph = phalanx_core::Graph::new();
    /// let (parse, answer) = (graph.shared("parse", ()), graph.shared("answer", ()));
    /// graph.calls(parse, answer);
    /// graph.calls(answer, ());
    /// assert!(graph.call_graph().cycles().is_empty());
    /// ```
    ///
    /// # Panics
    /// If a handle belongs to another graph.
    #[track_caller]
    pub fn calls(&mut self, from: impl Handles, to: impl Handles) {
        let to = self.numbers(&to);
        for from in self.numbers(&from) {
            if let Position::Declared(declared) = &mut self.stages[from] {
                let before = declared.calls.unwrap_or_default();
                declared.calls = Some(to.iter().fold(before, |all, to| all.with(*to)));
            }
        }
    }

    #[track_caller]
    fn numbers(&self, handles: &impl Handles) -> Vec<usize> {
        let mut set = HandleSet::default();
        handles.add_to(&mut set);
        let first = Key::new(self.id, 0);
        let number =
            |key: Key| key.among(first).expect("a handle works only with the graph that made it");
        set.0.into_iter().map(|key| number(key).into()).collect()
    }

    /// The stages declared so far, in wavefront order, without reserved positions.
    pub(crate) fn declared(&self) -> impl Iterator<Item = (usize, &StageDeclaration)> {
        self.stages.iter().enumerate().filter_map(|(at, position)| match position {
            Position::Declared(declared) => Some((at, declared)),
            Position::Reserved(_) => None,
        })
    }

    /// The names of all positions, in wavefront order.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let name = |position: &Position| match position {
            Position::Declared(declared) => declared.name,
            Position::Reserved(name) => name,
        };
        self.stages.iter().map(name).collect()
    }
}
