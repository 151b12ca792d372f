from hypothesis import settings

# A time limit for a single case would say more about what else the machine is doing than about the code.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
