//! The fallback model, which continues a turn when the session's model is rate limited.

use baton_model::catalog::ModelInfo;
use baton_protocol::provider::ProviderModel;

use crate::{ModelCaller, Models, ServerEndpoint};

/// Id in the provider's list that leaves the choice of a model to the provider.
const AUTO: &str = "auto";

impl Models {
    /// Chooses a model other than the current one: of a different provider if the session has several, because rate limits
    /// belong to accounts; otherwise of the same endpoint. Returns `None` if there is no other model.
    pub async fn fallback(&self, caller: &ModelCaller<'_>) -> Option<String> {
        let settings = &caller.settings;
        if !settings.models.is_empty() {
            return from_registry(settings.models, caller.model);
        }
        // A provider without a registry has only the session's model.
        if settings.provider.is_some() {
            return None;
        }
        let (endpoint, configured) = match self.default(Some(caller.session)) {
            ServerEndpoint::Demo => return None,
            ServerEndpoint::Copilot { url, token } => {
                (self.copilot(&url, token.as_deref(), caller).ok()?, None)
            }
            ServerEndpoint::Provider { provider, model } => {
                (self.endpoint_of(&provider, settings, model.as_deref()).ok()?.0, model)
            }
        };
        let (session, current) = (Some(caller.session), caller.model.or(configured.as_deref()));
        let cached = self.listed(session, &endpoint, false).await.ok()?;
        match from_list(&ids(&cached), current) {
            Some(other) => Some(other),
            // The cached list may be outdated, and without a fallback the turn fails.
            None => from_list(&ids(&self.listed(session, &endpoint, true).await.ok()?), current),
        }
    }
}

fn ids(models: &[ModelInfo]) -> Vec<&str> {
    models.iter().map(|info| info.id.as_str()).collect()
}

fn from_registry(models: &[ProviderModel], current: Option<&str>) -> Option<String> {
    let current =
        models.iter().find(|model| Some(model.selection().as_str()) == current).or(models.first())?;
    let others = || models.iter().filter(|model| model.selection() != current.selection());
    let other_provider = others().find(|model| model.provider != current.provider);
    other_provider.or_else(|| others().next()).map(ProviderModel::selection)
}

fn from_list(ids: &[&str], current: Option<&str>) -> Option<String> {
    let current = current.or(ids.first().copied())?;
    let others = || ids.iter().filter(|id| **id != current);
    others().find(|id| **id == AUTO).or_else(|| others().next()).map(|id| (*id).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_provider_is_preferred() {
        let model = |provider: &str, id: &str| ProviderModel {
            id: id.into(),
            provider: provider.into(),
            ..ProviderModel::default()
        };
        let models = [model("a", "1"), model("a", "2"), model("b", "1")];
        assert_eq!(from_registry(&models, Some("a/1")).as_deref(), Some("b/1"));
        assert_eq!(from_registry(&models, Some("b/1")).as_deref(), Some("a/1"));
        assert_eq!(from_registry(&models, None).as_deref(), Some("b/1"), "the first one is the default");
        assert_eq!(from_registry(&models[..2], Some("a/2")).as_deref(), Some("a/1"));
        assert_eq!(from_registry(&models[..1], Some("a/1")), None);
    }

    #[test]
    fn auto_entry_is_preferred() {
        assert_eq!(from_list(&["x", "y", "auto"], Some("x")).as_deref(), Some("auto"));
        assert_eq!(from_list(&["x", "y", "auto"], Some("auto")).as_deref(), Some("x"));
        assert_eq!(from_list(&["x", "y"], None).as_deref(), Some("y"));
        assert_eq!(from_list(&["x"], Some("x")), None);
        assert_eq!(from_list(&[], None), None);
    }
}
