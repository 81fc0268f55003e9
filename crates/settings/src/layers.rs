//! Settings of a session as the sum of what its clients brought and changed, in the order of its history.
//!
//! A server that takes a session over hears from every other server what the clients there brought when they joined and
//! changed since, in any order. Each part names the position of the history at which it was set, so the sum is what it was
//! before: the last change counts, whichever server brings it back first.

use baton_protocol::ClientId;
use baton_protocol::params::SessionParams;
use serde::{Deserialize, Serialize};

use super::{Settings, SettingsEdit};

/// Largest number of layers. Older ones are merged for good: nothing can be put between them any more.
const MOST_LAYERS: usize = 64;

/// Largest number of changes that are remembered.
const MOST_CHANGES: usize = 256;

/// A change of settings, with the position of the history at which it was made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SettingsChange {
    /// Sequence number of the last event before it.
    pub at: u64,
    /// The change.
    pub edit: SettingsEdit,
}

/// Changes of settings that are still in effect, in their order.
#[derive(Debug, Clone, Default)]
pub struct SettingsChanges(Ordered<SettingsEdit>);

impl SettingsChanges {
    /// Adds a change that was just made.
    pub fn add(&mut self, SettingsChange { at, edit }: SettingsChange) {
        // Every server finds its own agents.
        if !matches!(edit, SettingsEdit::FoundAgents(_)) {
            self.0.push(at, edit);
            self.0.shrink(MOST_CHANGES);
        }
    }

    /// Returns the changes.
    #[must_use]
    pub fn to_vec(&self) -> Vec<SettingsChange> {
        let changes = self.0.parts.iter();
        changes.map(|(at, edit)| SettingsChange { at: *at, edit: edit.clone() }).collect()
    }
}

/// Settings of a live session, by the parts that they are made of.
#[derive(Debug, Clone)]
pub struct Layers {
    base: Settings,
    layers: Ordered<Layer>,
    changes: SettingsChanges,
}

/// Part of a session's settings.
#[derive(Debug, Clone)]
enum Layer {
    /// What a client brought when it joined.
    Join { client: ClientId, params: Box<SessionParams>, legacy: bool },
    /// A later change.
    Edit(SettingsEdit),
}

impl Layer {
    fn apply_to(&self, settings: &mut Settings) {
        match self {
            Self::Join { client, params, legacy } => settings.merge(*client, params, *legacy),
            Self::Edit(edit) => settings.apply(edit.clone()),
        }
    }
}

impl Layers {
    /// Starts with the settings that a session is opened with.
    #[must_use]
    pub fn new(base: Settings) -> Self {
        Self { base, layers: Ordered::default(), changes: SettingsChanges::default() }
    }

    /// Adds the settings of a client that joins now.
    pub fn join(&mut self, at: u64, client: ClientId, params: &SessionParams, legacy: bool) {
        self.layers.push(at, Layer::Join { client, params: Box::new(params.clone()), legacy });
        self.shrink();
    }

    /// Adds the settings of a client that joined at an earlier position, unless they are known.
    pub fn rejoin(&mut self, at: u64, client: ClientId, params: &SessionParams, legacy: bool) {
        let is_it = |(position, layer): &(u64, Layer)| {
            *position == at && matches!(layer, Layer::Join { client: known, .. } if *known == client)
        };
        if !self.layers.parts.iter().any(is_it) {
            self.layers.insert(at, Layer::Join { client, params: Box::new(params.clone()), legacy });
            self.shrink();
        }
    }

    /// Adds a change that is made now.
    pub fn change(&mut self, change: SettingsChange) {
        self.layers.push(change.at, Layer::Edit(change.edit.clone()));
        self.changes.add(change);
        self.shrink();
    }

    /// Adds changes that were made at earlier positions, in their order.
    pub fn restore(&mut self, changes: &[SettingsChange]) {
        // Each is inserted before those of its position.
        for SettingsChange { at, edit } in changes.iter().rev() {
            self.layers.insert(*at, Layer::Edit(edit.clone()));
            self.changes.0.insert(*at, edit.clone());
        }
        self.changes.0.shrink(MOST_CHANGES);
        self.shrink();
    }

    fn shrink(&mut self) {
        for oldest in self.layers.shrink(MOST_LAYERS) {
            oldest.apply_to(&mut self.base);
        }
    }

    /// Returns the sum of all parts.
    #[must_use]
    pub fn sum(&self) -> Settings {
        let mut settings = self.base.clone();
        self.layers.parts.iter().for_each(|(_, layer)| layer.apply_to(&mut settings));
        settings
    }

    /// Returns the changes that clients made, as far as this server knows.
    #[must_use]
    pub fn into_changes(self) -> SettingsChanges {
        self.changes
    }
}

/// A part of the settings that later parts can replace completely.
trait Part {
    fn is_replaced_by(&self, later: &Self) -> bool;
}

impl Part for SettingsEdit {
    fn is_replaced_by(&self, later: &Self) -> bool {
        later.replaces(self)
    }
}

impl Part for Layer {
    fn is_replaced_by(&self, later: &Self) -> bool {
        matches!((self, later), (Self::Edit(earlier), Self::Edit(later)) if later.replaces(earlier))
    }
}

/// Parts in the order of their positions, without those that later ones replace.
#[derive(Debug, Clone)]
struct Ordered<T> {
    parts: Vec<(u64, T)>,
}

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self { parts: Vec::new() }
    }
}

impl<T: Part> Ordered<T> {
    /// Adds the newest part.
    fn push(&mut self, at: u64, part: T) {
        self.parts.retain(|(_, earlier)| !earlier.is_replaced_by(&part));
        self.parts.push((at, part));
    }

    /// Adds an earlier part, before those of its position: they are known to be newer, or it is one of them.
    fn insert(&mut self, at: u64, part: T) {
        let mut later = self.parts.split_off(self.parts.partition_point(|(position, _)| *position < at));
        if later.iter().all(|(_, later)| !part.is_replaced_by(later)) {
            self.push(at, part);
        }
        self.parts.append(&mut later);
    }

    /// Removes the oldest parts, up to a number that stays.
    fn shrink(&mut self, most: usize) -> Vec<T> {
        let surplus = self.parts.len().saturating_sub(most);
        self.parts.drain(..surplus).map(|(_, part)| part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OptionsEdit;

    fn excluded(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn exclude(at: u64, names: &[&str]) -> SettingsChange {
        let options = OptionsEdit { excluded_tools: excluded(names), ..OptionsEdit::default() };
        SettingsChange { at, edit: SettingsEdit::Options(Box::new(options)) }
    }

    fn skill(at: u64, name: &str, enabled: bool) -> SettingsChange {
        SettingsChange { at, edit: SettingsEdit::Skill { name: name.into(), enabled } }
    }

    fn params(names: &[&str]) -> SessionParams {
        SessionParams { excluded_tools: excluded(names), ..SessionParams::default() }
    }

    #[test]
    fn sum_is_the_same_in_whichever_order_servers_bring_their_parts_back() {
        type Bring = fn(&mut Layers);
        let parts: [Bring; 4] = [
            |layers| layers.rejoin(1, ClientId(1), &params(&["joined"]), false),
            |layers| layers.restore(&[exclude(5, &["first"]), skill(5, "s", false), skill(5, "s", true)]),
            |layers| layers.rejoin(7, ClientId(2), &params(&["second"]), false),
            |layers| layers.restore(&[exclude(9, &["last"])]),
        ];
        let orders = [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]];
        for order in orders {
            let mut layers = Layers::new(Settings::default());
            order.iter().for_each(|part| parts[*part](&mut layers));
            let settings = layers.sum();
            assert_eq!(settings.excluded_tools, ["last"], "{order:?}");
            assert_eq!(settings.enabled_skills, ["s"], "{order:?}");
            assert!(settings.disabled_skills.is_empty());
            let mut without_last = Layers::new(Settings::default());
            order.iter().filter(|part| **part != 3).for_each(|part| parts[*part](&mut without_last));
            assert_eq!(without_last.sum().excluded_tools, ["second"], "{order:?}: a join is newer");
        }
    }

    #[test]
    fn part_that_is_brought_back_twice_changes_nothing() {
        let mut layers = Layers::new(Settings::default());
        layers.join(1, ClientId(1), &params(&["joined"]), false);
        layers.change(exclude(5, &["first"]));
        layers.change(exclude(5, &["second"]));
        layers.restore(&[exclude(5, &["first"])]);
        layers.rejoin(1, ClientId(1), &params(&["joined"]), false);
        assert_eq!(layers.sum().excluded_tools, ["second"], "the link was lost, the owner was not");
        assert_eq!(layers.layers.parts.len(), 2);
        assert_eq!(layers.into_changes().to_vec().len(), 1);
    }

    #[test]
    fn layers_and_changes_are_bounded() {
        let mut layers = Layers::new(Settings::default());
        layers.change(exclude(0, &["early"]));
        for number in 0..1000 {
            layers.join(number, ClientId(number), &SessionParams::default(), false);
            layers.change(skill(number, &number.to_string(), false));
        }
        assert_eq!(layers.layers.parts.len(), MOST_LAYERS);
        let settings = layers.sum();
        assert_eq!(settings.excluded_tools, ["early"], "merged, not forgotten");
        assert_eq!(settings.disabled_skills.len(), 1000);
        assert_eq!(layers.into_changes().to_vec().len(), MOST_CHANGES);
    }
}
