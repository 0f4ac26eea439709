# Runs one of Eclipse Paho's interoperability suites (`client_test`, `client_test5`) against a broker and says which
# of its tests have failed: `suite.py FOLDER NAME PORT`. A test that the suite itself is too old for is left to whoever
# asks. What they print goes to stderr.

import contextlib
import importlib
import json
import logging
import sys
import unittest

folder, name, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
sys.path.insert(0, folder)
sys.argv = [name]
with contextlib.redirect_stdout(sys.stderr):
    suite = importlib.import_module(name)
    prefix = "client_test5/" if name == "client_test5" else ""
    # What the suite sets where it is run by itself.
    suite.host, suite.port, suite.topic_prefix = "127.0.0.1", port, prefix
    suite.topics = [prefix + topic for topic in ["TopicA", "TopicA/B", "Topic/C", "TopicA/C", "/TopicA"]]
    wild = ["TopicA/+", "+/C", "#", "/#", "/+", "+/+", "TopicA/#"]
    suite.wildtopics = [prefix + topic for topic in wild]
    suite.nosubscribe_topics = ("test/nosubscribe",)
    logging.getLogger().setLevel(logging.ERROR)
    tests = unittest.defaultTestLoader.loadTestsFromModule(suite)
    result = unittest.TextTestRunner(sys.stderr, verbosity=2).run(tests)
failed = sorted(test.id().rsplit(".", 1)[1] for test, _ in result.errors + result.failures)
print(json.dumps({"run": result.testsRun, "failed": failed}))
