"""The service: rankings, feedback and the experiment over HTTP."""
