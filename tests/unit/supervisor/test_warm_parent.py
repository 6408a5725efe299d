"""What the foreground of several brokers imports for them, and that it is out of the collector's sight afterwards."""

from types import SimpleNamespace

from mpbroker.supervisor import warm_parent


def test_everything_a_broker_runs_is_imported_before_the_heap_is_frozen(monkeypatch):
    """In a cluster and for either stage and kind of listener: whatever is missing, each process imports for itself.
    A collection meanwhile would go through all of it for nothing."""
    done = []
    monkeypatch.setattr(warm_parent, "gc", SimpleNamespace(disable=lambda: done.append("no collector")))
    monkeypatch.setattr(warm_parent, "import_module", done.append)
    monkeypatch.setattr(
        warm_parent, "resolve_mains", lambda late, in_cluster: done.append(f"mains {late} {in_cluster}")
    )
    monkeypatch.setattr(warm_parent, "served_versions", lambda between: done.append(f"versions {between}"))
    monkeypatch.setattr(warm_parent, "launch", SimpleNamespace(freeze=lambda: done.append("frozen")))
    monkeypatch.setattr(warm_parent, "take_heap_image", lambda: done.append("image"))
    warm_parent.warm_up()
    assert done[0] == "no collector" and done[-2:] == ["frozen", "image"]
    assert {
        "encodings.idna",
        "mpbroker.cli.start",
        "mpbroker.controller.agent",
        "mpbroker.log.sync_pool",
        "mpbroker.metadata.sqlite_shared_store",
    } <= set(done)
    assert set(done[1:-2]) == {
        "mpbroker.supervisor.supervisor",
        *(f"mains {late} True" for late in (False, True)),
        *(f"versions {between}" for between in (False, True)),
        *warm_parent._LATER,
    }
