//! The model to go on with when one may not be asked for a while.

use baton_model::catalog::ModelInfo;
use baton_protocol::provider::ProviderModel;

use super::{Asker, Models};
use crate::options;

/// What a list calls the choice that is left to the provider.
const AUTO: &str = "auto";

impl Models {
    /// Another model than the one that is asked now: of another provider if the session has several, because limits are
    /// those of accounts; else of the same endpoint. `None` if there is no other.
    pub(crate) async fn another(&self, asker: &Asker<'_>) -> Option<String> {
        let settings = asker.settings;
        if !settings.models.is_empty() {
            return of_registry(&settings.models, asker.model);
        }
        // A provider without a registry has the one model that the session named, or its own name for it.
        if settings.provider.is_some() {
            return None;
        }
        let (endpoint, configured) = match self.default() {
            options::Endpoint::Demo => return None,
            options::Endpoint::Copilot { url, token } => {
                (self.copilot(&url, token.as_deref(), asker).ok()?, None)
            }
            options::Endpoint::Provider { provider, model } => {
                (self.endpoint_of(&provider, settings, model.as_deref()).ok()?.0, model)
            }
        };
        let (transport, current) = (self.transport(None), asker.model.or(configured.as_deref()));
        let kept = self.catalog.models(&*transport, &endpoint).await.ok()?;
        match of_list(&ids(&kept), current) {
            Some(other) => Some(other),
            // The list may be old, and a turn is about to fail for want of another model: it is worth a look.
            None => of_list(&ids(&self.catalog.renewed(&*transport, &endpoint).await.ok()?), current),
        }
    }
}

fn ids(models: &[ModelInfo]) -> Vec<&str> {
    models.iter().map(|info| info.id.as_str()).collect()
}

fn of_registry(models: &[ProviderModel], current: Option<&str>) -> Option<String> {
    let current =
        models.iter().find(|model| Some(model.selection().as_str()) == current).or(models.first())?;
    let others = || models.iter().filter(|model| model.selection() != current.selection());
    let elsewhere = others().find(|model| model.provider != current.provider);
    elsewhere.or_else(|| others().next()).map(ProviderModel::selection)
}

fn of_list(ids: &[&str], current: Option<&str>) -> Option<String> {
    let current = current.or(ids.first().copied())?;
    let others = || ids.iter().filter(|id| **id != current);
    others().find(|id| **id == AUTO).or_else(|| others().next()).map(|id| (*id).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_provider_is_better_than_another_model() {
        let model = |provider: &str, id: &str| ProviderModel {
            id: id.into(),
            provider: provider.into(),
            ..ProviderModel::default()
        };
        let models = [model("a", "1"), model("a", "2"), model("b", "1")];
        assert_eq!(of_registry(&models, Some("a/1")).as_deref(), Some("b/1"));
        assert_eq!(of_registry(&models, Some("b/1")).as_deref(), Some("a/1"));
        assert_eq!(of_registry(&models, None).as_deref(), Some("b/1"), "the first one is asked by default");
        assert_eq!(of_registry(&models[..2], Some("a/2")).as_deref(), Some("a/1"));
        assert_eq!(of_registry(&models[..1], Some("a/1")), None);
    }

    #[test]
    fn of_a_list_the_automatic_choice_is_taken_if_there_is_one() {
        assert_eq!(of_list(&["x", "y", "auto"], Some("x")).as_deref(), Some("auto"));
        assert_eq!(of_list(&["x", "y", "auto"], Some("auto")).as_deref(), Some("x"));
        assert_eq!(of_list(&["x", "y"], None).as_deref(), Some("y"));
        assert_eq!(of_list(&["x"], Some("x")), None);
        assert_eq!(of_list(&[], None), None);
    }
}
